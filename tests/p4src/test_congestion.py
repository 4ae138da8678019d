"""p4src/congestion: ECN marks, the data that probes collect, and hostile probes."""

from pathlib import Path
from typing import Any

import pytest
import subject
from scapy.layers.inet import IP, TCP, IPOption_NOP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from minip4.engine.keys import Lpm

FOLDER = Path(__file__).parents[2] / "p4src" / "congestion"
HOST = [Lpm(0x0A000002, 32)]
MAC = "02:00:00:00:00:02"
PROBE = bytes.fromhex("ffffffffffff 020000000001 0812")
MOST_HOPS = 10


def switch_of(program: str, control: str) -> Any:
    switch = subject.switch(FOLDER / program, ports=(1, 2))
    table = f"{control}.forwarding"
    switch.table_add(f"{table}.ipv4_lpm", HOST, f"{table}.ipv4_forward", [0x0200_0000_0002, 2])
    return switch


def forwarded(ip: Packet, program: str = "ecn.p4", control: str = "EcnIngress") -> list[Packet]:
    frames = switch_of(program, control).process(1, bytes(Ether(dst=MAC) / ip / TCP()), 0)
    return [Ether(frame) for port, frame in frames if port == 2]


@pytest.mark.parametrize("options", [[], [IPOption_NOP()] * 4])
@pytest.mark.parametrize("tos", range(4))
def test_an_empty_queue_marks_nothing(tos: int, options: list[Packet]) -> None:
    sent = IP(src="10.0.0.1", dst="10.0.0.2", tos=tos, options=options)
    (frame,) = forwarded(sent)
    assert (frame[IP].tos, frame[IP].ttl, frame.dst) == (tos, 63, MAC)
    expected = IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2", tos=tos, ttl=63, options=options)
                        / TCP()))  # fmt: skip
    assert frame[IP].chksum == expected.chksum


@pytest.mark.parametrize(
    ("program", "control"), [("ecn.p4", "EcnIngress"), ("link_monitor.p4", "MonitorIngress")]
)
@pytest.mark.parametrize("ip", [IP(dst="10.0.0.2", ttl=1), IP(dst="10.0.0.3")])
def test_packets_without_route_or_ttl_are_dropped(program: str, control: str, ip: IP) -> None:
    assert forwarded(ip, program, control) == []


def probed(hops: int, ports: list[int], behind: bytes = b"") -> list[tuple[int, bytes]]:
    """Return the frames that the switch sends for a probe that has passed `hops` other switches.

    `ports` are the output ports that the probe names.
    """
    data = b"".join(bytes([hop == hops - 1 and 0x80, 9]) + bytes(16) for hop in range(hops))
    frame = PROBE + bytes([hops]) + data + bytes(ports) + behind
    frames: list[tuple[int, bytes]] = switch_of("link_monitor.p4", "MonitorIngress").process(
        1, frame, 0
    )
    return frames


def test_a_probe_leaves_by_the_port_that_it_names_for_this_hop() -> None:
    ((port, frame),) = probed(1, [1, 2], b"behind")
    assert port == 2
    assert frame[:15] == PROBE + b"\2"
    told = frame[15 : 15 + 18]
    assert (told[0] >> 7, told[1]) == (0, 2)  # not the first hop; sent by port 2
    assert int.from_bytes(told[2:6], "big") == len(PROBE) + 1 + 18 + 2 + len(b"behind")
    assert frame[15 + 18 :] == bytes([0x80, 9]) + bytes(16) + b"\1\2behind"


@pytest.mark.parametrize(
    ("hops", "ports"),
    [
        (0, []),  # the probe names no ports
        (1, [1]),  # the probe names no port for this hop
        (MOST_HOPS, [2] * MOST_HOPS),  # the probe has no room for this hop
        (MOST_HOPS + 3, [2] * 20),
        (255, []),
    ],
)
def test_a_probe_that_cannot_be_right_is_dropped(hops: int, ports: list[int]) -> None:
    assert probed(hops, ports) == []


def test_a_full_probe_still_takes_the_last_hop() -> None:
    ((port, frame),) = probed(MOST_HOPS - 1, [1] * (MOST_HOPS - 1) + [2])
    assert port == 2
    assert frame[14] == MOST_HOPS
    assert len(frame) == 15 + 18 * MOST_HOPS + MOST_HOPS
