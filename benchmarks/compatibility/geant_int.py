"""GEANT INT 1.0 program: does the collector decode its reports and find the path of each packet?

The script runs p4src/int_v1.0 of a clone of GEANT-DataPlaneProgramming/int-platforms, with one cast
added. The topology and the commands for simple_switch_CLI are also from the clone. h1 sends to h2
over s1, s3 and s2.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from collectors.int.application import Collector
from collectors.int.decoder import Decoded, Encoding
from controllers.connection import connection
from importers.switch_cli.session import CommandScript
from telemark.accounting import pcap
from telemark.apps.application import Application, Host
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.received import Frames

PACKETS, GAP_NS = 300, 1_000_000
ENCODING = Encoding(dscp=0x20, dscp_mask=0x3F, latency_unit_ns=1000, int1_long_times=True)
PORT = 6000  # UDP port of reports, as in the commands of the clone
# Line of include/int_source.p4 that minip4 and p4c reject; a cast converts bit<48> to bit<64>.
ASSIGNED = "ingress_tstamp = standard_metadata.ingress_global_timestamp;"
CAST = "ingress_tstamp = (bit<64>)standard_metadata.ingress_global_timestamp;"
PATH = [(1, 1, 3), (3, 2, 3), (2, 3, 4)]  # (node, ingress port, egress port)


@dataclass(frozen=True)
class Sample:
    sequence: int
    nodes: str
    ingress_ns: int  # time at the first node


class Triangle(Topo):
    """Topology of topo.txt in the clone, plus a collector at s2."""

    def build(self) -> None:
        for number in (1, 2, 3):
            self.addSwitch(f"s{number}")
            self.addHost(f"h{number}", ip=f"10.0.{number}.{number}/8",
                         mac=f"00:00:00:00:0{number}:0{number}")  # fmt: skip
        self.addHost("collector", ip="10.0.0.254/8", mac="f6:61:c0:6a:14:21")
        for ends in (("h1", "s1"), ("h2", "s2"), ("h3", "s3"), ("s1", "s2"), ("s1", "s3"),
                     ("s2", "s3"), ("s2", "collector")):  # fmt: skip
            self.addLink(*ends)


class KeepingCollector(Collector):
    """Collector whose result also contains all decoded reports."""

    def start(self, host: Host) -> None:
        """Start to listen."""
        self._parts: list[Decoded] = []
        super().start(host)

    def take(self, part: Decoded) -> None:
        """Store the decoded reports of one batch."""
        self._parts.append(part)
        super().take(part)

    def result(self) -> Any:
        """Return the findings, and for each report its sequence number and its hops."""
        reports = [
            (int(part.groups["sequence"][report["group"]]),
             part.hops[report["first_hop"] :][: report["hops"]])
            for part in self._parts for report in part.reports
        ]  # fmt: skip
        return super().result(), reports


class FrameCounter(Application):
    """Counts frames, and in each frame the bytes behind the end of the IP packet.

    There may be such bytes, because the sink of the program removes only its own metadata, but not
    those of earlier nodes.
    """

    def start(self, host: Host) -> None:
        """Start to receive all frames."""
        self._extra: list[int] = []
        host.frames(self.on_frames)

    def on_frames(self, frames: Frames) -> None:
        """Count frames and their excess bytes."""
        for each in frames:
            self._extra.append(len(each.frame) - 14 - IP(each.frame[14:]).len)

    def result(self) -> list[int]:
        """Return for each frame the number of bytes behind the end of the IP packet."""
        return self._extra


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clone", type=Path, required=True, metavar="DIR",
                        help="of GEANT-DataPlaneProgramming/int-platforms")  # fmt: skip


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    program = with_cast(options.clone, run.folder / "geant")
    with Network(Triangle(), run, program=program, defines={"BMV2": 1}) as net:
        for name in net.topo.switches():
            commands = options.clone / "platforms/bmv2-mininet/int.p4app/commands"
            script = CommandScript(commands / f"commands{name[1:]}.txt")
            async with connection(net, name) as switch:
                if failed := await script.write(switch, net):
                    raise TestbedError(f"{name}: {failed[0]}")
        collector = net.run_application("collector", KeepingCollector(ENCODING, port=PORT))
        receiver = net.run_application("h2", FrameCounter())
        begin_ns = run.clock.now_ns() + 100_000_000
        times_ns = [begin_ns + GAP_NS * number for number in range(PACKETS)]
        net.send_frames("h1", times_ns, [frame(net, number) for number in range(PACKETS)])
        await run.clock.sleep_until(times_ns[-1] + 500_000_000)
    findings, reports = collector.result
    came_ns = pcap.read(net.capture("s1", "h1", "in")).time_ns
    checks = [
        Check("reports", findings.reports, PACKETS),
        Check("malformed reports", findings.parse_errors.total(), 0),
        Check("reports with a wrong sequence number",
              sum(found != wanted for wanted, (found, _) in enumerate(reports)), 0),
        Check("reports with wrong path or ports",
              sum(places(hops) != PATH for _, hops in reports), 0),
        Check("reports with decreasing times, or with times of another packet",
              sum(not fits(hops, int(time_ns))
                  for (_, hops), time_ns in zip(reports, came_ns, strict=False)), 0),
        Check("frames at h2", len(receiver.result), PACKETS),
    ]  # fmt: skip
    samples = [Sample(number, "-".join(str(hop["node"]) for hop in hops),
                      int(hops["ingress_ns"][0])) for number, hops in reports]  # fmt: skip
    extra = max(receiver.result, default=0)
    return Report(
        [asdict(each) for each in samples],
        checks,
        metrics={"bytes_after_the_ip_packet_at_h2": extra},
    )


def with_cast(clone: Path, folder: Path) -> Path:
    """Copy the program, and add the missing cast. Raises TestbedError for another program."""
    source = clone / "p4src" / "int_v1.0"
    changed = folder / "include" / "int_source.p4"
    try:
        shutil.copytree(source, folder)
        text = changed.read_text()
    except OSError as error:
        raise TestbedError(
            f"{source}: cannot read the clone: {error.strerror}; use --clone DIR"
        ) from None
    if text.count(ASSIGNED) != 1:
        raise TestbedError(f"{source}: expected `{ASSIGNED}` exactly once; use commit 737e84e")
    changed.write_text(text.replace(ASSIGNED, CAST))
    return folder / "int.p4"


def frame(net: Network, number: int) -> bytes:
    """Return a frame as h1_h2_udp_flow.py of the clone sends it."""
    source, target = net.host("h1"), net.host("h2")
    head = Ether(src=source.MAC(), dst=target.MAC()) / IP(src=source.IP(), dst=target.IP())
    return bytes(head / UDP(sport=0x11FF, dport=0x22FF) / number.to_bytes(6, "big"))


def places(hops: NDArray[np.void]) -> list[tuple[int, int, int]]:
    return [(int(hop["node"]), int(hop["ingress"]), int(hop["egress"])) for hop in hops]


def fits(hops: NDArray[np.void], came_ns: int) -> bool:
    """Return whether times increase along the path, from the arrival at the first switch."""
    times = [int(hop[name]) for hop in hops for name in ("ingress_ns", "egress_ns")]
    return abs(times[0] - came_ns) < 2000 and times == sorted(times)


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment, add_options)
