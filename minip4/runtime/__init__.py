"""The runtime: a switch process with packet sockets and a P4Runtime server."""
