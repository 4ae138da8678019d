"""DTA load from live INT: of what Telemetry Reports tell a host, it sends DTA reports."""

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.dta.generator import KEPT, Generator, Sent
from collectors.dta.load import Load, of_paths
from collectors.int.application import PORT as INT_PORT
from collectors.int.decoder import Decoded, Decoder, Encoding
from collectors.int.shared import Flag, ParseStatus
from telemark.apps.application import Host
from telemark.traffic.received import Datagrams


class Relayed(NamedTuple):
    """What came, and what became of it."""

    sent: Sent
    paths: int  # that INT's reports told
    others: int  # reports without a path of an IPv4 flow: drops, full queues, IPv6
    parse_errors: Counter[ParseStatus]  # what was malformed


class LiveGenerator(Generator):
    """Sends DTA reports of each path that INT tells: of each opcode of `load.mix` one, postcards of
    all hops (of_paths() of load.py).

    Switches of INT need to know nothing of DTA: their collector is this host. All else is as of a
    Generator. Its result is Relayed.
    """

    def __init__(
        self, load: Load, to_address: str, encoding: Encoding, *, port: int = INT_PORT,
        kept: int = KEPT,
    ) -> None:  # fmt: skip
        """`encoding`: that of INT, whose reports come to `port`. Raises ValueError."""
        of_paths(load, np.zeros((1, 4), np.uint32), [[0]])
        super().__init__(load, to_address, kept=kept)
        self._description = load
        self._encoding = encoding
        self._port = port
        self._paths = self._others = 0

    def start(self, host: Host) -> None:
        """Listen."""
        self._listen(host)
        self._decoder = Decoder(self._encoding)
        host.udp(self._port, self.on_reports)

    def on_reports(self, datagrams: Datagrams) -> None:
        """Send what INT's reports tell."""
        for part in self._decoder.decode(datagrams):
            is_path = _tells_path(part.reports)
            told = part.reports[is_path]
            self._paths += len(told)
            self._others += len(part.reports) - len(told)
            if len(told):
                self._relay(told, part)

    def _relay(self, told: NDArray[np.void], part: Decoded) -> None:
        load = self._description
        number = (load.first_sequence + self._sent) % (1 << 32)
        paths = [_nodes(report, part.hops) for report in told]
        now_ns = self._host.now_ns()
        for payload in of_paths(replace(load, first_sequence=number), _keys(told["key"]), paths):
            self._send(payload, load.format.port, now_ns)

    def result(self) -> Any:
        """Relayed."""
        return Relayed(
            super().result(), self._paths, self._others, self._decoder.parse_errors.copy()
        )


def _tells_path(reports: NDArray[np.void]) -> NDArray[np.bool_]:
    """Of flows of IPv4, what has hops, and is no drop: (n,)."""
    is_dropped = (reports["flags"] & Flag.DROPPED) != 0
    is_flow = (reports["flags"] & Flag.TRACKED) != 0
    return is_flow & ~is_dropped & (reports["hops"] > 0) & (reports["key"]["ip_version"] == 4)


def _nodes(report: Any, hops: NDArray[np.void]) -> list[int]:
    """The switches of a report's path, the one that reports as the last."""
    first = int(report["first_hop"])
    nodes: list[int] = hops["node"][first : first + int(report["hops"])].tolist()
    # Where it has nothing to say but who it is, it is not among the hops.
    return nodes if nodes[-1] == report["node"] else [*nodes, int(report["node"])]


def _keys(keys: NDArray[np.void]) -> NDArray[np.uint32]:
    """As flow_key() of controllers/dta/watch.py names flows: (n, 4)."""
    found = np.zeros((len(keys), 4), np.uint32)
    for column, name in enumerate(("source", "destination")):
        octets = np.ascontiguousarray(keys[name]).view(np.uint8).reshape(len(keys), -1)
        found[:, column] = np.ascontiguousarray(octets[:, :4]).view(">u4")[:, 0]
    found[:, 2] = keys["source_port"].astype(np.uint32) << 16 | keys["destination_port"]
    found[:, 3] = keys["protocol"].astype(np.uint32) << 24
    return found
