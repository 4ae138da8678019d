"""bmv2's Thrift API (queues and registers), through the Python bindings that bmv2 installs."""
