"""Stand-in for the Thrift bindings that bmv2 installs: the same signatures."""
