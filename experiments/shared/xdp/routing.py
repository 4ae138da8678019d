"""Routing candidates: the kernel and the router at XDP, both with the tables of the kernel."""

import random
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

from ebpf.datapath import router
from ebpf.loader import attach_xdp, load
from experiments.shared.xdp.dropping import PROGRAMS, count_dropped, passing
from experiments.shared.xdp.forwarding import NEXT_HOP_MAC, set_up_stack
from experiments.shared.xdp.frames import DEVICE_MAC, LENGTH, SENDER_MAC
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.veth_setup import DEVICE, OUT, SINK, VethPair
from telemark.apps.headers import internet_checksum

NEXT_HOP = "192.168.0.2"
TTL_AND_MACS = 34  # number of bytes that a router may change: Ethernet and IPv4 headers
FIRST, LAST = 11 << 24, 126 << 24  # address range of routes and destinations
# Percentage of routes with each prefix length, approximately as in the table of the Internet.
LENGTHS = {24: 60, 23: 10, 22: 12, 21: 5, 20: 5, 19: 4, 18: 2, 16: 2}


def prefixes(count: int, seed: int) -> list[str]:
    """Return different random prefixes, including two that cover all addresses."""
    rng, found = random.Random(seed), {"0.0.0.0/1": None, "128.0.0.0/1": None}
    while len(found) < count:
        length = rng.choices([*LENGTHS], [*LENGTHS.values()])[0]
        address = rng.randrange(FIRST, LAST) >> (32 - length) << (32 - length)
        found[f"{ip_address(address)}/{length}"] = None
    return [*found][:count]


def frames(destinations: int, seed: int) -> list[bytes]:
    """Return one UDP packet to each of `destinations` random addresses."""
    rng = random.Random(seed)
    return [_frame(rng.randrange(FIRST, LAST)) for _ in range(destinations)]


def _frame(destination: int) -> bytes:
    words = (0x4500, LENGTH - 14, 0, 0, 64 << 8 | 17)
    source = bytes((10, 1, 0, 1))
    ends = source + destination.to_bytes(4, "big")
    header = struct.pack(">6H", *words, 0) + ends
    header = struct.pack(">6H", *words, internet_checksum(header)) + ends
    udp = struct.pack(">4H", 1024, 9, LENGTH - 34, 0)
    return (DEVICE_MAC + SENDER_MAC + b"\x08\0" + header + udp).ljust(LENGTH, b"\0")


def candidates(routes: Sequence[str], folder: Path) -> tuple[Candidate, Candidate]:
    """Return kernel routing and the router at XDP, each in a namespace with all routes."""
    size = "one route" if len(routes) == 1 else f"{len(routes):,} routes"
    batch = folder / f"routes{len(routes)}"
    batch.write_text("".join(f"route add {each} via {NEXT_HOP}\n" for each in routes))

    def kernel(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
        _prepare(veth, batch)
        return set_up_stack(stack)

    def xdp(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
        _prepare(veth, batch)
        passing(stack)
        ours = router.Router(stack.enter_context(load(router.SOURCE)), [DEVICE, OUT])
        sink = stack.enter_context(load(PROGRAMS))
        stack.enter_context(attach_xdp(sink.programs["drop_all"], SINK))
        return ReadyCandidate(
            ours.program, lambda: min(count_dropped(sink), ours.counts()["forwarded"])
        )

    return Candidate(f"kernel, {size}", kernel, 1), Candidate(f"XDP, {size}", xdp, 1)


def _prepare(veth: VethPair, batch: Path) -> None:
    """Set up a next hop and all routes via this next hop."""
    veth.run(
        f"""echo 1 > /proc/sys/net/ipv4/ip_forward; ip address add 192.168.0.1/24 dev {OUT}
        ip neighbour add {NEXT_HOP} lladdr {NEXT_HOP_MAC} dev {OUT} nud permanent
        ip -batch {batch}"""
    )
