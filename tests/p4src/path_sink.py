"""An INT sink in this process. It writes the paths of packets to memory by RoCE."""

from collections.abc import Sequence

import numpy as np
from int_path import IN, OUT, TO_COLLECTOR, Switch
from roce_path import FLOW_AND_PATH, Session, install, parse_request
from scapy.packet import Packet

from collectors.roce.packets import RETH, ImmDt
from collectors.roce.region import PATH
from minip4.engine.keys import Exact, Ternary

KNOWN = 0xFC00  # the instructions whose metadata a path contains
SLOTS = 6
ALL = Session(stride=PATH.itemsize, slots=SLOTS, content=FLOW_AND_PATH)


class Sink(Switch):
    """Node 9, an INT sink. Packets with INT from port 1 leave by port 2, without INT.

    Records leave by port 3.
    """

    def __init__(
        self,
        session: Session = ALL,
        *,
        dst_port: int | None = None,
        outside: Sequence[int] = (OUT,),
    ) -> None:
        super().__init__(9, outside=outside, program="../roce/int_sink.p4")
        self.report_all()
        install(self.engine, session, "Sink")
        port = Ternary(0, 0) if dst_port is None else Ternary(dst_port, 0xFFFF)
        for table in ("record_list", "record_list_ipv6"):
            self.engine.table_add(
                f"SinkIngress.recorded.{table}", [*[Ternary(0, 0)] * 4, port],
                "SinkIngress.recorded.record", [1, 1], 1,
            )  # fmt: skip

    def report_queue(self) -> None:
        """Let the next packet find a full queue, however short the queue is."""
        queues = "SinkEgress.departure.packet.queue_reports"
        self.engine.table_add(f"{queues}.queue_reports", [Exact(OUT)], f"{queues}.report_queue",
                              [0, 0, 1, 0xF000])  # fmt: skip

    def record(self, frame: bytes, time_us: int = 0) -> tuple[bytes, Packet]:
        """Return the forwarded frame, and its record. Assert that the switch sends nothing else."""
        (port, out), (to_collector, record) = self.send(frame, time_us)
        assert (port, to_collector) == (OUT, TO_COLLECTOR)
        return out, parse_request(record)


def path(record: Packet) -> np.void:
    """Return the path that a record contains."""
    headers = ImmDt if ImmDt in record else RETH
    return np.frombuffer(bytes(record[headers].payload), PATH)[0]


def pushed(frame: bytes, *nodes: int, instructions: int = KNOWN, **given: int) -> bytes:
    """Return the frame after it passed these nodes. The first node is the source."""
    source = Switch(nodes[0], outside=[IN])
    version = 6 if frame[12:14] == b"\x86\xdd" else 4
    source.embed_data(instructions, version=version, **given)
    out = source.pass_on(frame, 1000)
    for node in nodes[1:]:
        out = Switch(node).pass_on(out, 1000 * node)
    return out
