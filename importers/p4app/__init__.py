"""Importer of p4-utils networks: p4app.json, and its scripts and tasks."""

from importers.p4app.reader import read

__all__ = ["read"]
