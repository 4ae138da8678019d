"""Importer of p4-utils networks: p4app.json, with its command scripts, tasks and other scripts."""

from importers.p4app.reader import read

__all__ = ["read"]
