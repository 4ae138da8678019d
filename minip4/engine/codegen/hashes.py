"""C code of calculations: checksums and hashes over a list of fields.

As in bmv2, fields are packed bit by bit, fields of invalid headers are omitted, and the payload is
the part of the frame after the parsed headers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from minip4.engine import model as m
from minip4.engine.codegen.expressions import Expressions
from minip4.engine.codegen.headers import store_lines
from minip4.engine.codegen.layout import Layout, literal, literals
from minip4.engine.errors import NotSupported
from minip4.engine.words import limbs

Lines = list[str]

FUNCTIONS = {
    "crc16": "hash_crc16(buffer, length)",
    "crc32": "hash_crc32(buffer, length)",
    "crcCCITT": "hash_ccitt(buffer, length)",
    "csum16": "hash_csum16(buffer, length)",
    "cksum16": "hash_csum16(buffer, length)",
    "xor16": "hash_xor16(buffer, length)",
    "xor32": "hash_xor32(buffer, length)",
    "identity": "hash_identity(buffer, length)",
    "xxh64": "hash_xxh64(buffer, length)",
    "crc8_custom": "hash_crc_custom(&crc_custom[CRC8_CUSTOM], buffer, length)",
    "crc16_custom": "hash_crc_custom(&crc_custom[CRC16_CUSTOM], buffer, length)",
    "crc32_custom": "hash_crc_custom(&crc_custom[CRC32_CUSTOM], buffer, length)",
    "crc64_custom": "hash_crc_custom(&crc_custom[CRC64_CUSTOM], buffer, length)",
}


# crc(width,polynomial,is reversed,initial value,final xor), with numbers as minip4 writes them
_CRC = re.compile(r"crc\((\d{1,2}),(0x[0-9a-f]+),([01]),(0x[0-9a-f]+),(0x[0-9a-f]+)\)")


def _call(algorithm: str) -> str:
    """Return the C code that hashes a buffer. Raises NotSupported."""
    if algorithm in FUNCTIONS:
        return FUNCTIONS[algorithm]
    crc = _CRC.fullmatch(algorithm)
    if crc is None or not 8 <= int(crc[1]) <= 64:
        raise NotSupported(f"hash algorithm {algorithm!r} is not supported")
    polynomial, initial, final = (literal(int(crc[i], 16)) for i in (2, 4, 5))
    values = f"{int(crc[1])}, {polynomial}, {initial}, {final}, {crc[3]}, {crc[3]}"
    return f"hash_crc_custom(&(const struct crc_custom){{{values}}}, buffer, length)"


@dataclass(slots=True)
class Run:
    """Inputs that are present together: fields of one header, or constants and metadata."""

    valid: str | None
    items: list[tuple[str, int]] = field(default_factory=list)
    """C code of each value (an array of limbs, if wider than 64 bits) and its width in bits."""
    varbit: str | None = None
    varbit_bytes: int = 0

    @property
    def bits(self) -> int:
        return sum(width for _, width in self.items)


class HashCode:
    def __init__(self, layout: Layout, expressions: Expressions) -> None:
        self.layout, self.expressions = layout, expressions

    def function(self, name: str, algorithm: str, inputs: tuple[m.CalculationInput, ...]) -> str:
        """Return the C function of a calculation, `static uint64_t <name>(c, h)`."""
        call = _call(algorithm)
        runs = self._runs(inputs)
        payload = any(i.kind == "payload" for i in inputs)
        whole_words = all(r.bits % 16 == 0 and not r.varbit for r in runs)
        if algorithm in ("csum16", "cksum16") and whole_words:
            body = self._sum(runs, payload=payload)
        else:
            body = self._buffer(runs, call, payload=payload)
        lines = "\n".join(f"    {line}" for line in body)
        return f"static uint64_t {name}(ARGUMENTS)\n{{\n{lines}\n}}\n"

    # --- inputs ----------------------------------------------------------------------------

    def _runs(self, inputs: tuple[m.CalculationInput, ...]) -> list[Run]:
        runs: list[Run] = []
        for item in inputs:
            if item.kind == "payload":
                continue
            if isinstance(item.expr, m.HeaderRef):
                header = item.expr.header
                for f in header.type.fields:
                    self._add(runs, m.FieldRef(header, f), 0)
            elif item.expr is not None:
                self._add(runs, item.expr, item.width)
        return runs

    def _add(self, runs: list[Run], e: m.Expr, width: int) -> None:
        valid = None
        if isinstance(e, m.FieldRef) and not e.header.metadata:
            valid = f"h->valid[{self.layout.place(e.header).number}]"
        if not runs or runs[-1].valid != valid or runs[-1].varbit:
            runs.append(Run(valid))
        run = runs[-1]
        if isinstance(e, m.Const):
            run.items.append((self._constant(e.value, width), width))
        elif isinstance(e, m.FieldRef) and e.field.varbit:
            run.varbit, _, _ = self.expressions.varbit(e)
            run.varbit_bytes = e.field.width // 8
        else:
            code, f = self.expressions.readable(e)
            run.items.append((code, f.width))

    def _constant(self, value: int, width: int) -> str:
        words = literals(value, width)
        return words if width <= 64 else f"((const uint64_t[]){{{words}}})"

    # --- the internet checksum, without a buffer -----------------------------------------------

    def _sum(self, runs: list[Run], *, payload: bool) -> Lines:
        """Return statements for the Internet checksum.

        Each field is shifted to its position in a 16-bit word, and added to a one's complement
        sum. All words are equivalent, because 2^16 is 1 modulo 2^16 - 1.
        """
        lines = ["uint64_t sum = 0;"]
        for run in runs:
            adds: Lines = []
            at = 0
            for code, width in run.items:
                at += width
                adds += self._sum_field(code, width, -at % 16)
            lines += [f"if ({run.valid}) {{", *adds, "}"] if run.valid else adds
        if payload:
            lines.append(f"sum = sum_add(sum, sum_bytes({PAYLOAD}, {PAYLOAD_LENGTH}));")
        return [*lines, "return (uint16_t)~sum_fold(sum);"]

    def _sum_field(self, code: str, width: int, shift: int) -> Lines:
        lines = []
        for i in range(limbs(width)):
            word = f"(uint64_t){code}" + (f"[{i}]" if width > 64 else "")
            lines.append(f"sum = sum_add(sum, {word} << {shift});")
            if min(64, width - 64 * i) + shift > 64:
                lines.append(f"sum = sum_add(sum, {word} >> {64 - shift});")
        return lines

    # --- any other hash ------------------------------------------------------------------------

    def _buffer(self, runs: list[Run], call: str, *, payload: bool) -> Lines:
        limit = sum(r.bits // 8 + 9 + r.varbit_bytes for r in runs)
        room = f"{limit}" + (" + PACKET_MAX_FRAME + PACKET_ROOM" if payload else "")
        lines = [f"uint8_t buffer[{room}];", "size_t bits = 0;"]
        for run in runs:
            puts = self._put_run(run)
            lines += [f"if ({run.valid}) {{", *puts, "}"] if run.valid else puts
        lines.append("size_t length = (bits + 7) / 8;")
        if payload:
            lines += [
                f"memcpy(buffer + length, {PAYLOAD}, {PAYLOAD_LENGTH});",
                f"length += {PAYLOAD_LENGTH};",
            ]
        return [*lines, f"return {call};"]

    def _put_run(self, run: Run) -> Lines:
        """Pack a run by bytes if all earlier runs have whole bytes, else bit by bit."""
        size = (run.bits + 7) // 8
        lines = [
            "if (bits % 8 == 0) {",
            "    uint8_t *at UNUSED = buffer + bits / 8;",
            f"    memset(at, 0, {size});",
        ]
        at = 0
        for code, width in run.items:
            lines += [f"    {line}" for line in store_lines(code, "at", at, width)]
            at += width
        lines.append("} else {")
        for code, width in run.items:
            for i in reversed(range(limbs(width))):
                word = f"{code}[{i}]" if width > 64 else code
                count = width - 64 * i if i == limbs(width) - 1 else 64
                lines.append(f"    put_bits(buffer, bits, {word}, {count}); bits += {count};")
        lines += [f"    bits -= {run.bits};", "}", f"bits += {run.bits};"]
        if run.varbit:
            lines += [
                f"memcpy(buffer + bits / 8, {run.varbit}, {run.varbit}_bits / 8);",
                f"bits += {run.varbit}_bits;",
            ]
        return lines


PAYLOAD = "c->packet->data + h->start.payload"
PAYLOAD_LENGTH = "(c->packet->length - h->start.payload)"
