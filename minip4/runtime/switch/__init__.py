"""`minip4 switch`: a switch process, its options, ports and control socket."""
