"""BfRt control scripts of TNA programs: bfrt_python and bfrt_grpc names, on P4Runtime.

A script of Barefoot's SDE fills the tables of a Tofino through BfRt. Here, the same calls become
P4Runtime requests to a running switch. `tables` and `device` have tables and their operations,
`switch` finds them by name, `shell` has the names of bfrt_python
(`bfrt.program.pipe.Ingress.table.add_with_action(...)`), and `client` is the module
bfrt_grpc.client. There is no BfRt server.
"""
