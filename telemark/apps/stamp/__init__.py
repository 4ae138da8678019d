"""Simple Two-Way Active Measurement Protocol (RFC 8762, RFC 8972) between hosts."""
