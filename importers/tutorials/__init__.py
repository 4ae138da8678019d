"""Importer of p4lang/tutorials networks: topology.json, and its sX-runtime.json."""

from importers.tutorials.topology import read

__all__ = ["read"]
