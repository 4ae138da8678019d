"""Stand-in of the Thrift bindings that bmv2 installs: the same signatures."""
