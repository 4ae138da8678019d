"""The parser in packet.h, compared with a model in Python, on valid and on malformed frames."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
from bad_frames import frames
from packet_model import Packet, parse

from ebpf.loader import load, run

SOURCE = """
#include "packet.h"
struct packet packet;
SEC("xdp") int example(struct xdp_md *context)
{
    return parse((void *)(long)context->data, (void *)(long)context->data_end, &packet);
}
"""


def read(verdict: int, record: np.void) -> Packet:
    """Return the packet that a program has parsed: its result, and the fields that it stored."""
    values = {each.name: record[each.name] for each in fields(Packet)[1:]}
    values |= {name: values[name].astype("<u4").tobytes() for name in ("source", "destination")}
    plain = {
        name: value if isinstance(value, bytes) else value.item() for name, value in values.items()
    }
    return Packet(is_whole=bool(verdict), **plain)


def test_all_frames_are_read_as_the_model_reads_them(write_bpf: Callable[[str], Path]) -> None:
    seen: Counter[str] = Counter()
    with load(write_bpf(SOURCE)) as whole:
        for frame in frames(1, 4000):
            tried = run(whole.programs["example"], frame)
            expected = parse(frame)
            assert read(tried.verdict, whole.maps[".bss"].mapped()["packet"][0]) == expected, (
                frame.hex()
            )
            seen.update(name for name, value in vars(expected).items() if value)
            seen["not whole"] += not expected.is_whole and expected.version > 0
            seen["chain"] += expected.version == 6 and expected.transport_offset > 62
    assert len(seen) == len(fields(Packet)) + 2  # each field occurred with a nonzero value
    assert min(seen.values()) > 50, seen
