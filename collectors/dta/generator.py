"""Application that sends DTA reports. It resends reports that a translator requests again."""

import random
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from collectors.dta.load import Load, Reports
from collectors.dta.packets import DTA, NACK_PORT, PORT, Nack, decode
from telemark.apps.application import Application, Host
from telemark.traffic.received import Datagrams

LEAD_NS = 20_000_000  # time between the start and the first report
KEPT = 1024  # maximum number of stored reports; only stored reports can be resent
TRIES = 16  # maximum number of times that one report is resent
# delay before the second resend of a report; the delay doubles with each further resend
PATIENCE_NS = 1_000_000


@dataclass(frozen=True)
class Sent:
    """Numbers of reports and NACKs, and send times: the result of a generator."""

    sent: int  # new reports
    resent: int
    nacks: int
    # number of reports that NACKs requested, but that are no longer stored or never existed
    left: int
    # number of reports that NACKs requested, but that had already been resent TRIES times
    given_up: int
    strange: int  # number of datagrams at the NACK port that are no NACKs
    first_ns: int  # send time of the first report
    last_ns: int
    max_late_ns: int  # maximum delay of a report behind the schedule


@dataclass
class _Kept:
    """A report that may have to be resent."""

    payload: bytes
    tries: int = 0
    is_due: bool = False  # whether a resend is scheduled
    is_given_up: bool = False


class Generator(Application):
    """Sends reports to the address of a collector: at a constant rate, or at a capture's times.

    The translator on the path intercepts the reports. The result is a Sent. Retransmittable reports
    in Telemark's format are stored for a while, and resent after a NACK. The first resend is
    immediate, later resends have an increasing delay. Without this delay, a translator with a rate
    limit could request the same report in a loop. A sender of forged NACKs could do the same.
    """

    def __init__(
        self, load: Load | Reports, to_address: str, rate_per_s: float = 1000, *,
        start_ns: int | None = None, source_port: int = PORT, kept: int = KEPT,
    ) -> None:  # fmt: skip
        """Send `to_address` the reports. If they have send times, `rate_per_s` is not used.

        `start_ns` is the time of the first report on the common clock.
        """
        self._load = load
        self._to_address = to_address
        self._rate_per_s = rate_per_s
        self._start_ns = start_ns
        self._source_port = source_port
        self._max_kept = kept
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._rng = random.Random(1)
        self._sent = self._resent = self._nacks = self._left = self._given_up = self._strange = 0
        self._max_late_ns = 0
        self._first_ns = self._last_ns = 0

    def start(self, host: Host) -> None:
        """Create the reports. Send the first when its time has come."""
        reports = self._load.reports() if isinstance(self._load, Load) else self._load
        self._payloads, self._ports = reports.payloads, reports.ports
        offsets_ns = reports.offsets_ns
        if offsets_ns is None:
            offsets_ns = np.round(np.arange(len(self._payloads)) * 1e9 / self._rate_per_s)
        start_ns = host.now_ns() + LEAD_NS if self._start_ns is None else self._start_ns
        self._due_ns = (offsets_ns + start_ns).astype(np.int64).tolist()
        self._listen(host)
        host.call_at(self._due_ns[0], self._send_due)

    def _listen(self, host: Host) -> None:
        """Open the ports from which reports are sent and at which NACKs arrive."""
        self._host = host
        self._udp = host.udp(self._source_port)
        self._nack_port = host.udp(NACK_PORT, self.on_nacks)

    def _send_due(self) -> None:
        now_ns = self._host.now_ns()
        while self._sent < len(self._due_ns) and self._due_ns[self._sent] <= now_ns:
            self._max_late_ns = max(self._max_late_ns, now_ns - self._due_ns[self._sent])
            self._send(self._payloads[self._sent], self._ports[self._sent], now_ns)
        if self._sent < len(self._due_ns):
            self._host.call_at(self._due_ns[self._sent], self._send_due)

    def _send(self, payload: bytes, port: int, now_ns: int) -> None:
        """Send a new report."""
        self._udp.send(payload, self._to_address, port)
        if port == PORT:
            self._keep(payload)
        self._sent += 1
        self._first_ns = self._first_ns or now_ns
        self._last_ns = now_ns

    def _keep(self, payload: bytes) -> None:
        report = DTA(payload[:8])
        if report.retransmittable:
            self._kept[report.sequence] = _Kept(payload)
            if len(self._kept) > self._max_kept:
                self._kept.popitem(last=False)

    def on_nacks(self, datagrams: Datagrams) -> None:
        """Resend the reports that NACKs request, if they are still stored."""
        for each in datagrams:
            try:
                packet = decode(each.payload)
            except ValueError:
                packet = None
            if packet is None or Nack not in packet:
                self._strange += 1
            else:
                self._nacks += 1
                self._send_again(packet.sequence, min(packet[Nack].count, self._sent))

    def _send_again(self, first: int, count: int) -> None:
        # Iterate over the stored reports, and not over the requested range: a NACK may request
        # 2^32 - 1 reports.
        wanted = [
            kept for sequence, kept in self._kept.items() if (sequence - first) % (1 << 32) < count
        ]
        self._left += count - len(wanted)
        for kept in wanted:
            if kept.tries == TRIES:
                self._given_up += not kept.is_given_up
                kept.is_given_up = True
            elif not kept.tries:
                self._resend(kept)
            elif not kept.is_due:
                kept.is_due = True
                # If the translator rejected several reports at the same time, resend them at
                # different times.
                wait_ns = (PATIENCE_NS << kept.tries) * (0.5 + self._rng.random() / 2)
                self._host.call_at(self._host.now_ns() + wait_ns, partial(self._resend, kept))

    def _resend(self, kept: "_Kept") -> None:
        kept.is_due = False
        kept.tries += 1
        self._resent += 1
        self._udp.send(kept.payload, self._to_address, PORT)

    def result(self) -> Any:
        """Return the Sent result."""
        return Sent(self._sent, self._resent, self._nacks, self._left, self._given_up,
                    self._strange, self._first_ns, self._last_ns, self._max_late_ns)  # fmt: skip
