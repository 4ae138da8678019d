"""The control plane of an engine: tables, profiles, state, and the trace of packets."""
