"""RoCE responder as an application. It replaces the NIC of its host, in real and virtual time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from collectors.roce.endpoint import Completion, Counts, Peer, Target, Transport
from collectors.roce.region import Region
from collectors.roce.softnic import BASE, Limits, SoftNic
from telemark.apps.application import Application, Host
from telemark.traffic.received import Frames
from telemark.watch.display import Display, Series

if TYPE_CHECKING:
    from prometheus_client.core import Metric

FIRST_QPN, FIRST_RKEY = 0x100, 0x1000
PATH_MTU = 1024
SHOW_NS = 50_000_000  # minimum interval of updates on the page of --watch


@dataclass(frozen=True)
class Writer:
    """A peer, and the parameters of the region to which this peer writes.

    No other peer writes to the region (see Region).
    """

    peer: Peer
    record: np.dtype[Any]
    count: int
    path: Path | None = None
    transport: Transport = Transport.RC


@dataclass(frozen=True)
class Outcome:
    """Result of a responder: memory contents, completions, and counts of packets."""

    records: list[NDArray[Any]]  # records of each writer's region, shape (count,)
    # completions and their times (ns of the common clock)
    completions: list[tuple[int, Completion]]
    counts: Counts
    refusals: list[str]  # the latest rejected packets and the reasons, as text


class Responder(Application):
    """Application that executes the requests of writers. Its result is an Outcome.

    The targets are known before the responder runs, so a controller can already configure switches
    with them. Therefore, the R_Keys are predictable. Use the responder only in the experiment's own
    network.
    """

    def __init__(
        self, address: str, writers: Sequence[Writer], *, hold_us: float = 0, receives: int = 256
    ) -> None:
        """`address` is the address of the host. For `hold_us`, see Host.frames()."""
        self._address = address
        self._writers = writers
        self._hold_us = hold_us
        self._receives = receives
        self._completions: list[tuple[int, Completion]] = []

    @property
    def targets(self) -> list[Target]:
        """Return the target of each writer."""
        return [
            Target(self._address, FIRST_QPN + number, writer.peer.psn, FIRST_RKEY + number, BASE,
                   writer.record.itemsize * writer.count, PATH_MTU, writer.transport)
            for number, writer in enumerate(self._writers)
        ]  # fmt: skip

    def start(self, host: Host) -> None:
        """Connect the writers, and start to receive frames of the host."""
        self._nic = SoftNic(
            self._address, mac=host.mac, path_mtu=PATH_MTU, first_qpn=FIRST_QPN,
            limits=Limits(receives=self._receives),
        )  # fmt: skip
        self._regions = []
        for writer, target in zip(self._writers, self.targets, strict=True):
            region = self._region(writer)
            domain = self._nic.register(region, rkey=target.rkey)
            connected = self._nic.connect(domain, writer.peer, transport=writer.transport)
            assert connected == target
            self._regions.append(region)
        self._host = host
        self._display = host.display
        self._last_ns = self._show_ns = 0
        self._port = host.frames(self.on_frames, hold_us=self._hold_us)
        host.publish_metrics("roce", self._collect)

    def _region(self, writer: Writer) -> Region:
        """Return a region.

        Writers to the same file share one region, because a file can be claimed only once.
        """
        for other, region in zip(self._writers, self._regions, strict=False):
            what = (other.path, other.record, other.count)
            if writer.path is not None and what == (writer.path, writer.record, writer.count):
                return region
        return Region(writer.record, writer.count, writer.path)

    def on_frames(self, frames: Frames) -> None:
        """Execute the requests in the frames, and send the responses."""
        for reply in self._nic.receive(frames):
            self._port.send(reply)
        self._last_ns = int(frames.time_ns[-1])
        self._completions += [(self._last_ns, each) for each in self._nic.completions()]
        if self._display is not None and self._last_ns >= self._show_ns:
            self._show_ns = self._last_ns + SHOW_NS
            self._show(self._display)

    def _collect(self) -> "Iterator[Metric]":
        # takes 0.05 s, which runs without --metrics do not need
        from collectors.roce.metrics import metrics  # noqa: PLC0415

        return metrics(self._host.name, self._nic.counts())

    def _show(self, display: Display) -> None:
        """Show the number of accepted requests on the page of --watch."""
        series = Series("RDMA", "requests accepted", self._address, "requests")
        display.add(series, [(self._last_ns, self._nic.counts().accepted.total())])

    def result(self) -> Any:
        """Return the Outcome."""
        if self._display is not None and self._last_ns:
            self._show(self._display)
        self._host.publish_metrics("roce", self._collect)
        records = [region.records.copy() for region in self._regions]
        for region in self._regions:
            region.release()  # so that a later collector in this process can claim the file
        return Outcome(records, self._completions, self._nic.counts(), self._nic.refusals())
