"""PTF tests that p4testgen writes for Tofino, as STF scripts.

A PTF test is a Python class. Its methods configure a switch, send a packet and verify another
one. Here, each of these calls writes a line of an STF script.
"""

import re
from types import SimpleNamespace
from typing import Any

from minip4.engine.model import Program, Table
from minip4.stf.names import find


def scripts_of(tests: str, program: Program) -> dict[str, str]:
    """Return an STF script for each test in a Python file of p4testgen: name -> text."""
    namespace: dict[str, Any] = {
        "AbstractTest": PtfTest,
        "Mask": MaskedPacket,
        "gc": SimpleNamespace(KeyTuple=key_word, DataTuple=lambda name, value: (name, value)),
        "send_packet": lambda test, port, data: test.lines.append(f"packet {port} {data.hex()}"),
        "verify_packet": lambda test, packet, port: test.lines.append(f"expect {port} {packet}$"),
    }
    first = re.search(r"(?m)^class Test\d+\(", tests)
    exec(tests[first.start() :] if first else "", namespace)
    scripts = {}
    for name, kind in namespace.items():
        if name.startswith("Test"):
            test: Any = kind(program)
            test.setupCtrlPlane()
            test.sendPacket()
            test.verifyPackets()
            trace = [f"# {line.strip()}" for line in (kind.__doc__ or "").splitlines()]
            scripts[name] = "\n".join([*trace, *test.lines])
    return scripts


def key_word(
    name: str,
    value: int = 0,
    mask: int | None = None,
    *,
    prefix_len: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> str:
    """Format a key field as in an STF script. The name of a validity lacks its last `$`."""
    text = str(value)
    if low is not None:
        text = f"{low}..{high}"
    elif prefix_len is not None:
        text = f"{value}/{prefix_len}"
    elif mask is not None:
        bits = zip(f"{value & mask:0{mask.bit_length()}b}", f"{mask:b}", strict=True)
        text = "0b" + "".join(bit if care == "1" else "*" for bit, care in bits)
    return f'"{name.replace("$valid", "$valid$")}":{text}'


class MaskedPacket:
    """An expected packet. A hexadecimal digit with an ignored bit matches any digit."""

    def __init__(self, packet: bytes) -> None:
        self._digits = list(packet.hex())

    def set_do_not_care(self, offset: int, bits: int) -> None:
        first, last = offset // 4, (offset + bits - 1) // 4
        self._digits[first : last + 1] = "*" * (last + 1 - first)

    def __str__(self) -> str:
        return "".join(self._digits)


class PtfTest:
    """The base class of all tests; its methods have the names that p4testgen uses."""

    def __init__(self, program: Program) -> None:
        self.lines: list[str] = []
        self._program = program
        self._members: dict[tuple[str | None, int], str] = {}

    def insertTableEntry(
        self, name: str, key: list[str], action: str | None, data: list[tuple[str, int]]
    ) -> None:
        """Add an entry to a table, or a member to an action profile."""
        if "$ACTION_MEMBER_ID" in key[0]:
            profile = find({n: n for n in self._program.profiles}, name, "action profile")
            self._members[profile, int(key[0].rpartition(":")[2])] = call(str(action), data)
            return
        table = self._table(name)
        run = call(action, data) if action else self._members[table.profile, data[0][1]]
        self.lines.append(f'add "{table.name}" {" ".join(key)} {run}')

    def overrideDefaultEntry(self, name: str, action: str, data: list[tuple[str, int]]) -> None:
        self.lines.append(f'setdefault "{self._table(name).name}" {call(action, data)}')

    def _table(self, name: str) -> Table:
        return find(self._program.tables, unnumbered(name), "table")

    def setRegisterValue(self, name: str, value: int | list[tuple[str, int]], index: int) -> None:
        """Write a cell; the first field of a struct has the highest bits."""
        register, number = find(self._program.registers, name, "register"), 0
        fields = value if isinstance(value, list) else [(name, value)]
        for _, part in fields:
            number = number << register.width // len(fields) | part
        self.lines.append(f'register_write "{name}" {index} {number}')


def call(action: str, data: list[tuple[str, int]]) -> str:
    """Return the call of an action as in a script."""
    return f'"{unnumbered(action)}"({", ".join(f"{name}:{value}" for name, value in data)})'


def unnumbered(name: str) -> str:
    """Return a name without the numbers (`_0`) that controls with constructor arguments have."""
    return re.sub(r"_\d+(?=\.)", "", name)
