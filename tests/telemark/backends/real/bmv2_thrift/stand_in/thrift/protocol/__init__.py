"""Stand-in for the Apache Thrift library: a connection is a port number."""
