"""The compiler: P4-16 for v1model to BMv2 JSON and P4Info."""
