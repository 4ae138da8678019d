"""Traffic between hosts: UDP and TCP flows, send patterns, and received packets."""
