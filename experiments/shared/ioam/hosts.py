"""Applications of hosts: a collector that stores reports, and a receiver that stores frames."""

from collectors.ioam.metrics import ReportMetrics
from collectors.ioam.options import Report
from experiments.shared.ioam.live import LiveTraces
from telemark.apps.application import Application, Host
from telemark.traffic.received import Datagrams, Frames

HOLD_US = 1000


class ReportKeeper(Application):
    """Collector that stores all reports; its result is a list of Report."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._payloads: list[bytes] = []

    def start(self, host: Host) -> None:
        """Listen."""
        self._live = None if host.display is None else LiveTraces(host.display)
        self._host = host
        self._sums = ReportMetrics(host.name)
        host.udp(self._port, self._keep, hold_us=HOLD_US)
        host.publish_metrics("ioam", self._sums.metrics)

    def _keep(self, datagrams: Datagrams) -> None:
        payloads = [each.payload for each in datagrams]
        self._payloads += payloads
        if self._host.metrics is not None:
            self._sums.add(payloads)
        if self._live is not None:
            self._live.take(datagrams)

    def result(self) -> list[Report]:
        """Return all reports in order of arrival."""
        self._host.publish_metrics("ioam", self._sums.metrics)
        return [Report.decode(payload) for payload in self._payloads]


class FrameKeeper(Application):
    """Receiver that stores all frames in order; its result is a list of bytes."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []

    def start(self, host: Host) -> None:
        """Listen."""
        host.frames(self._keep, hold_us=HOLD_US)

    def _keep(self, frames: Frames) -> None:
        self._frames += [bytes(each.frame) for each in frames]

    def result(self) -> list[bytes]:
        """Return all frames."""
        return self._frames
