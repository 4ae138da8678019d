"""Stand-in of the Apache Thrift library: a connection is a port number."""
