"""INT switches whose queue is full, and reports what it drops."""

import ctypes

from int_layers import INGRESS, LEVEL_1, QUEUE
from int_path import IN, OUT, Switch

from minip4.engine.engine import Engine

DEPTH = 2


def crowded(switch: Switch, *, wanted: int = LEVEL_1 | QUEUE | INGRESS) -> Switch:
    """Port 2 sends a packet a millisecond, two may wait, and drops there are reported."""
    engine = switch.engine
    assert isinstance(engine, Engine)
    engine.clock = lambda: 0
    engine.set_queue(OUT, 0, depth_packets=DEPTH, rate_pps=1000)
    engine.deflect_on_drop(is_on=True)
    drops = f"{switch.egress}.deflected.queue_drops"
    engine.table_set_default(f"{drops}.drop_reports", f"{drops}.report_drops", [wanted])
    return switch


def inject(switch: Switch, frames: list[bytes], time_us: int = 5000) -> list[tuple[int, bytes]]:
    """All at once; what leaves in the end."""
    engine = switch.engine
    assert isinstance(engine, Engine)
    assert switch.send(frames[0]), "it brings the ports up"
    for frame in frames:
        data = (ctypes.c_uint8 * len(frame)).from_buffer_copy(frame)
        assert engine.library.engine_inject(engine.handle, IN, data, len(frame), 1000 * time_us)
    engine.library.engine_advance(engine.handle, 10**15)
    return engine._taken()
