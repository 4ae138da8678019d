"""Networks of p4-utils: p4app.json, with scripts of commands, tasks and scripts to execute."""

from importers.p4app.reader import read

__all__ = ["read"]
