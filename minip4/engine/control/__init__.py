"""The control plane of an engine: tables, action profiles, other state, and packet traces."""
