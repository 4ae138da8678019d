"""bmv2's Thrift API (queues and registers), by the Python bindings that bmv2 installs."""
