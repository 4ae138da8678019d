"""Lowering of calls of the extern functions and methods of tna.p4."""

from __future__ import annotations

from minip4.compiler.lower.context import Externs
from minip4.compiler.lower.externs import functions as core
from minip4.compiler.tna.externs import (
    checksums,
    counters,
    filters,
    functions,
    hashes,
    math_units,
    packets,
    parsing,
    registers,
)

EXTERNS = Externs(
    functions={
        "funnel_shift_right": functions.funnel_shift_right,
        "invalidate": functions.invalidate,
        "max": functions.maximum,
        "min": functions.minimum,
        "port_metadata_unpack": parsing.port_metadata_unpack,
        "sizeInBits": functions.size_in_bits,
        "sizeInBytes": functions.size_in_bytes,
        "static_assert": core.static_assert,
        "verify": core.verify,
    },
    methods={
        ("Checksum", "add"): checksums.add,
        ("Checksum", "get"): checksums.get,
        ("Checksum", "subtract"): checksums.subtract,
        ("Checksum", "subtract_all_and_deposit"): checksums.subtract_all_and_deposit,
        ("Checksum", "update"): checksums.update,
        ("Checksum", "verify"): checksums.verify,
        ("Counter", "count"): counters.count,
        ("Digest", "pack"): packets.pack,
        ("DirectCounter", "count"): counters.count_direct,
        ("DirectMeter", "execute"): counters.execute_direct,
        ("DirectRegister", "read"): registers.read_direct,
        ("DirectRegister", "write"): registers.write_direct,
        ("DirectRegisterAction", "execute"): registers.execute_direct,
        ("DirectRegisterAction", "predicate"): registers.predicate,
        ("Hash", "get"): hashes.get,
        ("Lpf", "execute"): filters.execute,
        ("MathUnit", "execute"): math_units.execute,
        ("Meter", "execute"): counters.execute,
        ("Mirror", "emit"): packets.mirror,
        ("ParserCounter", "decrement"): parsing.decrement,
        ("ParserCounter", "increment"): parsing.increment,
        ("ParserCounter", "is_negative"): parsing.is_negative,
        ("ParserCounter", "is_zero"): parsing.is_zero,
        ("ParserCounter", "set"): parsing.set_counter,
        ("ParserPriority", "set"): parsing.set_priority,
        ("Random", "get"): hashes.random,
        ("Register", "read"): registers.read,
        ("Register", "write"): registers.write,
        ("RegisterAction", "execute"): registers.execute,
        ("RegisterAction", "execute_log"): registers.execute_log,
        ("RegisterAction", "predicate"): registers.predicate,
        ("RegisterParam", "read"): registers.read_parameter,
        ("Resubmit", "emit"): packets.resubmit,
        ("Wred", "execute"): filters.execute_wred,
    },
    selector_algorithm=hashes.selector_algorithm,
)
