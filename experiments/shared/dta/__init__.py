"""What DTA experiments share: a translator between a host that reports and a collector."""
