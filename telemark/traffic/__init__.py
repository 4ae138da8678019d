"""Traffic between hosts: UDP and TCP flows, their patterns, and what was received."""
