"""Networks of p4lang/tutorials: topology.json, with its sX-runtime.json."""

from importers.tutorials.topology import read

__all__ = ["read"]
