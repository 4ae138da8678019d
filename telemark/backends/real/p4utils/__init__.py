"""p4-utils in its own Python environment: NetworkAPI scripts, and bmv2's Thrift API."""
