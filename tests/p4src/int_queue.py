"""INT switches whose queue is full, and which report drops of this queue."""

import ctypes

from int_layers import INGRESS, LEVEL_1, QUEUE
from int_path import IN, OUT, Switch

from minip4.engine.engine import Engine

DEPTH = 2


def crowded(switch: Switch, *, wanted: int = LEVEL_1 | QUEUE | INGRESS) -> Switch:
    """Make port 2 send a packet per millisecond, with room for two in its queue.

    Report its drops.
    """
    engine = switch.engine
    assert isinstance(engine, Engine)
    engine.clock = lambda: 0
    engine.set_queue(OUT, 0, depth_packets=DEPTH, rate_pps=1000)
    engine.deflect_on_drop(is_on=True)
    drops = f"{switch.egress}.deflected.queue_drops"
    engine.table_set_default(f"{drops}.drop_reports", f"{drops}.report_drops", [wanted])
    return switch


def inject(switch: Switch, frames: list[bytes], time_us: int = 5000) -> list[tuple[int, bytes]]:
    """Send all frames to a switch at the same time.

    Return all frames that it sends until the end.
    """
    engine = switch.engine
    assert isinstance(engine, Engine)
    assert switch.send(frames[0]), "it brings the ports up"
    for frame in frames:
        data = (ctypes.c_uint8 * len(frame)).from_buffer_copy(frame)
        assert engine.library.engine_inject(engine.handle, IN, data, len(frame), 1000 * time_us)
    engine.library.engine_advance(engine.handle, 10**15)
    return engine._taken()
