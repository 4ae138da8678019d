"""An INT sink in this process. It writes the paths of packets to memory by RoCE."""

from collections.abc import Sequence
from functools import partial

import int_path
import numpy as np
from int_path import OUT, TO_COLLECTOR, Switch
from roce_path import FLOW_AND_PATH, Session, install, parse_request
from scapy.packet import Packet

from collectors.roce.packets import RETH, ImmDt
from collectors.roce.region import PATH
from minip4.engine.keys import Ternary

KNOWN = 0xFC00  # the instructions whose metadata a path contains
SLOTS = 6
pushed = partial(int_path.pushed, instructions=KNOWN)
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

    def record(self, frame: bytes, time_us: int = 0) -> tuple[bytes, Packet]:
        """Return the forwarded frame, and its record. Assert that the switch sends nothing else."""
        (port, out), (to_collector, record) = self.send(frame, time_us)
        assert (port, to_collector) == (OUT, TO_COLLECTOR)
        return out, parse_request(record)


def path(record: Packet) -> np.void:
    """Return the path that a record contains."""
    headers = ImmDt if ImmDt in record else RETH
    return np.frombuffer(bytes(record[headers].payload), PATH)[0]
