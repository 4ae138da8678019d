"""INT-XD on a host: sends Telemetry Reports v2.0 about packets that leave or arrive at a device.

The program in the kernel (postcards.bpf.c) records packets. A thread of this process writes the
reports, and sends them from the network namespace of the device. Each datagram contains one report,
whose sequence number is from the kernel. So the collector sees a gap for every lost report.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from ebpf.edge.ends import Ends
from ebpf.edge.watch_list import Key, WatchList
from ebpf.loader import load
from ebpf.loader.ring import Ring

SOURCE = Path(__file__).parent / "postcards.bpf.c"
POSTCARD = struct.Struct("=QQIIIIB7x")  # struct postcard of postcards.bpf.c, up to `inner`
LEAVING, ARRIVING = range(2)
VERSION, INT, TRACKED = 2, 1, 0x20  # values of fields of a report: version, RepType, and the F bit
INNER_TYPES = {4: 4, 6: 5}  # InType by IP version
FIXED_WORDS = 2  # number of words of a report that follow its first word
POLL_MS = 50
INTERFACES, INGRESS_TIME, EGRESS_TIME = 0x4000, 0x0800, 0x0400
"""The INT instructions that an edge program supports: interfaces, ingress time and egress time.

Ingress and egress time are equal, because an edge program has only one measuring point.
"""


class Postcard(NamedTuple):
    """Data of one packet, as recorded by the program in the kernel."""

    sequence: int
    time_us: int
    direction: int  # LEAVING or ARRIVING
    instructions: int
    device: int  # number of the device
    version: int  # IP version
    inner: bytes  # the packet from the IP header on, up to the length that is reported

    @classmethod
    def of(cls, record: bytes) -> Postcard:
        """Parse a record of the ring buffer."""
        sequence, time_us, direction, instructions, device, size, version = POSTCARD.unpack_from(
            record
        )
        inner = record[POSTCARD.size :][:size]
        return cls(sequence, time_us, direction, instructions, device, version, inner)

    def report(self, node: int) -> bytes:
        """Return a datagram with a group header and one report (Telemetry Report 2.0, 3.2 and 3.3).

        The host itself has the interface number 0.
        """
        time_us = self.time_us % (1 << 48)
        ends = (0, self.device) if self.direction == LEAVING else (self.device, 0)
        known = {
            INTERFACES: struct.pack(">HH", *(end & 0xFFFF for end in ends)),
            INGRESS_TIME: struct.pack(">Q", time_us),
            EGRESS_TIME: struct.pack(">Q", time_us),
        }
        selected = {bit: data for bit, data in known.items() if self.instructions & bit}
        metadata = b"".join(selected.values())
        words = FIXED_WORDS + (len(metadata) + len(self.inner)) // 4
        numbered = VERSION << 28 | self.direction << 22 | self.sequence % (1 << 22)
        kind = INT << 4 | INNER_TYPES[self.version]
        return (
            struct.pack(">IIBBBB", numbered, node, kind, words, len(metadata) // 4, TRACKED)
            + struct.pack(">HHHH", sum(selected), 0, 0, 0) + metadata + self.inner
        )  # fmt: skip


class PostcardEdge:
    """Edge program that reports the packets of watched flows at a device.

    The program runs until close(), or until this process ends. `node` is the node id in reports.
    `collector` is an IPv4 address and a UDP port. `namespace` is the network namespace of the
    device, as `/proc/PID/ns/net`. None means the namespace of this thread. The clock is
    CLOCK_MONOTONIC, in microseconds. Raises LoadError.
    """

    def __init__(
        self, device: str, node: int, collector: tuple[str, int], namespace: str | None = None, *,
        order: int = 0,
    ) -> None:  # fmt: skip
        # number of reports that could not be sent, because the kernel did not accept them
        self.unsent = 0
        self._node = node
        self._closing = threading.Event()
        self._failed: BaseException | None = None
        with ExitStack() as opening:
            loaded = opening.enter_context(load(SOURCE))
            self.programs = loaded.programs
            self._shared = loaded.maps[".bss"].mapped()[0]
            self._list = WatchList(loaded)
            setting = self._shared["setting"]
            setting["collector"] = int.from_bytes(socket.inet_aton(collector[0]), "little")
            setting["port"] = collector[1]
            programs = loaded.programs["postcards_leaving"], loaded.programs["postcards_arriving"]
            ends = Ends(*programs, device, namespace, order)
            opening.callback(ends.close)
            self._socket = opening.enter_context(ends.udp())
            self._socket.connect(collector)
            self._ring = Ring(loaded.maps["postcards"], self._send)
            opening.callback(self._ring.close)
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
            opening.callback(self._stop, ends)
            self._open = opening.pop_all()

    def __enter__(self) -> PostcardEdge:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach the programs from the device, and send the reports that are still waiting."""
        self._open.close()

    def watch(self, flows: Mapping[Key, Mapping[str, int]]) -> None:
        """Report these flows, and no others.

        Each flow has the fields `priority`, `share` (number of hash values that are selected, of
        2^32 - 1) and `instructions`, as in postcards.bpf.c. Raises LoadError.
        """
        self._list.put(flows)

    def kinds(self) -> dict[str, int]:
        """Return the number of packets of each kind (watch_list.py).

        Packets of both directions are counted together.
        """
        return self._list.kinds()

    @property
    def without_room(self) -> int:
        """Return how many reports were lost because the ring buffer was full."""
        return int(self._shared["without_room"])

    def _send(self, record: bytes) -> None:
        try:
            self._socket.send(Postcard.of(record).report(self._node))
        # Nobody listens, or there is no route or no memory. Like a switch, this thread does not
        # send the report again.
        except OSError:
            self.unsent += 1

    def _work(self) -> None:
        try:
            while not self._closing.is_set():
                self._ring.poll(POLL_MS)
        except BaseException as error:  # close() raises it again
            self._failed = error

    def _stop(self, ends: Ends) -> None:
        ends.detach()
        self._closing.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        self._ring.drain()
