"""BfRt control scripts of TNA programs: bfrt_python and bfrt_grpc names, on P4Runtime.

A script of Barefoot's SDE fills the tables of a Tofino through BfRt. Here, the same calls become
P4Runtime requests to a running switch. `tables` has the tables of a switch and their operations,
`shell` the names of bfrt_python (`bfrt.program.pipe.Ingress.table.add_with_action(...)`), and
`client` the module bfrt_grpc.client. There is no BfRt server.
"""
