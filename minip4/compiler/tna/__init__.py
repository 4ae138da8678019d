"""Tofino's architecture (TNA): what the compiler knows of it.

One engine runs both architectures. A TNA program is lowered to the same intermediate form as a
v1model program. Each pipeline has two parsers (or more) and two deparsers:

    ingress parser -> ingress -> ingress deparser -> traffic manager
                   -> egress parser -> egress -> egress deparser -> port

1. Bytes, not metadata, pass from ingress to egress. The engine writes the intrinsic metadata of
   ingress and the port metadata before a received frame, and the intrinsic metadata of egress
   before the frame that leaves the traffic manager. The parsers of the program extract them.
   Bridged metadata and headers of mirrored packets are bytes of the frame, too; they need no code.
2. The structs of intrinsic metadata (`ig_intr_md_for_tm` and so on) are metadata instances with
   these names in the intermediate form. The engine reads and writes their fields by name.
3. The statements of a deparser become its `body`, which the engine runs at the end of the pipeline,
   before it copies the frame (Mirror) and writes the headers. `emit` may depend on the validity of
   its header only. Mirror, Resubmit and Digest are requests to the engine, like those of v1model.
4. A RegisterAction is inlined where it is executed: read the cell, run `apply`, write the cell. The
   engine processes one packet at a time, so this is atomic. A cell of a struct is one number.
5. Checksum objects are variables with a one's complement sum. A parser counter is a variable.
6. Hash and Checksum use the calculations of the intermediate form; polynomials are part of the
   algorithm's name. The inputs of Hash include fields of invalid headers, as on Tofino. Checksum
   leaves them out.
7. Objects of the control plane (tables, counters, meters, registers, profiles) and P4Info are those
   of v1model (ExternObject.kind). Mirror sessions are P4Runtime's clone sessions.
8. Operations on a direct counter, meter or register have no index. The engine keeps the counters
   and cells of registers in the slot of an entry, and passes their addresses to its actions.
9. A filter (Lpf, Wred) has two registers: its settings, which P4Info shows, and its state.
10. The pipelines of a Switch share the intrinsic metadata, since a packet is in one pipeline at a
    time, but nothing else. The generated code selects the pipeline by the port, and a parser, too.
    `__meta__` of the JSON has the pipes and parsers, if there are several.
11. t2na.p4 is tna.p4 with other declarations for Tofino 2. The engine finds the fields of metadata
    by their names, whatever their widths are.

Here, `architecture` finds the blocks of a Switch, `declarations` checks a program's own copy of the
architecture, `program` lowers the blocks, and `externs` lowers calls of the externs of tna.p4. In
the engine, minip4/engine/tna has the counterparts: `generator` (C code around the pipelines),
`tables` and `primitives` (C code of tables and actions), `filters.c`, and `pipeline.c` (the path of
a packet). `docs/reference/tna.md` lists what is supported.
"""
