"""The control plane of an engine: tables, profiles, other state, and the trace of packets."""
