"""The load balancer: Maglev's table against the paper's text, and where each packet goes."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address

import numpy as np
import pytest
import wire
from bad_frames import TCP, UDP, ethernet, frames, ipv4, ipv6, segment
from packet_model import parse

from ebpf.datapath import maglev
from ebpf.datapath.hashing import murmur3
from ebpf.datapath.load_balancer import SOURCE, LoadBalancer, Service
from ebpf.loader import attach_xdp, load, run, run_live

PASS, TX, DROP = 2, 3, 1
MAC, CLIENT = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000c")
VIP = ip_address("10.9.9.9")
SERVICE = Service(VIP, 80, TCP)
SYN, ACK = 0x02, 0x10


def reals(count: int) -> dict[str, bytes]:
    return {f"real{i}": b"\x02\x01\x00\x00" + i.to_bytes(2, "big") for i in range(count)}


@pytest.fixture
def balancer() -> Iterator[LoadBalancer]:
    if os.geteuid():
        pytest.skip("BPF needs root")
    with load(SOURCE, {"balancer_mac": [*MAC]}, {"flows": 4096}) as loaded:
        yield LoadBalancer(loaded)


def request(number: int, flags: int = ACK, *, macs: bytes = MAC + CLIENT) -> bytes:
    """A packet of connection `number`."""
    source, port = 0x0A000000 | number % 1000, 1024 + number // 1000
    return ethernet(ipv4(source, int(VIP), TCP, segment(TCP, port, 80, flags)), 0x0800, macs=macs)


def goes_to(balancer: LoadBalancer, frame: bytes) -> bytes:
    """The MAC address of the real; the rest of the frame must be as it was."""
    tried = run(balancer.program, frame)
    assert tried.verdict == TX
    assert tried.frame[6:] == MAC + frame[12:]
    return tried.frame[:6]


def by_table(frame: bytes, names: list[str]) -> str:
    """The real of a connection, by the model's parser, hash and table."""
    packet = parse(frame)
    ports = packet.source_port.to_bytes(2, "big") + packet.destination_port.to_bytes(2, "big")
    flow = packet.source + packet.destination + ports + bytes([packet.protocol, 0, 0, 0])
    place = int(murmur3(np.frombuffer(flow, "<u4")[None])[0]) * maglev.PLACES >> 32
    return names[model_table(names)[place]]


def model_table(names: list[str], places: int = maglev.PLACES) -> list[int]:
    """The paper's pseudocode 1 (3.4), with all permutations written out."""
    return _model_table(tuple(names), places)


@cache
def _model_table(names: tuple[str, ...], places: int) -> list[int]:
    orders = np.array([maglev._order(name, places) for name in names])
    permutation = (orders[:, :1] + np.arange(places) * orders[:, 1:]) % places
    following, entry, done = [0] * len(names), [-1] * places, 0
    while done < places:
        for i in range(len(names)):
            if done == places:
                break
            while entry[c := int(permutation[i, following[i]])] >= 0:
                following[i] += 1
            entry[c] = i
            following[i] += 1
            done += 1
    return entry


@pytest.mark.parametrize(("count", "places"), [(1, 7), (3, 7), (7, 7), (10, 1009), (100, 65537)])
def test_tables_are_those_of_the_papers_pseudocode(count: int, places: int) -> None:
    names = [f"real{i}" for i in range(count)]
    table = maglev.table(names, places)
    assert table.tolist() == model_table(names, places)
    shares = np.bincount(table, minlength=count)
    assert shares.max() - shares.min() <= 1, "each has as many places, or one more"


def test_hashes_are_murmurs() -> None:
    """Known answers of MurmurHash3_x86_32 with seed 0, of whole words."""
    known = {b"": 0, b"test": 0xBA6BD213, b"abcd": 0x43ED676A, b"\0\0\0\0": 0x2362F9DE,
             b"\xff\xff\xff\xff": 0x76293B50, b"\x21\x43\x65\x87": 0xF55B516B}  # fmt: skip
    for text, expected in known.items():
        assert murmur3(np.frombuffer(text, "<u4")[None])[0] == expected


def test_connections_go_where_the_table_says_and_stay(balancer: LoadBalancer) -> None:
    there = reals(100)
    balancer.serve(SERVICE, there)
    names = [*there]
    for number in range(500):
        name = by_table(request(number), names)
        assert goes_to(balancer, request(number, SYN)) == there[name]
        assert goes_to(balancer, request(number)) == there[name]
    sent = balancer.sent(SERVICE)
    assert sum(packets for packets, _ in sent.values()) == 1000
    assert sum(size for _, size in sent.values()) == 1000 * len(request(0))
    counts = balancer.counts()
    assert (counts["by_table"], counts["by_connection"], counts["moved"]) == (500, 500, 0)


def test_when_a_real_goes_only_its_connections_move(balancer: LoadBalancer) -> None:
    """And of new ones as many have another real than before as Maglev's tables differ in."""
    there = reals(100)
    names = [*there]
    balancer.serve(SERVICE, there)
    before = [goes_to(balancer, request(number)) for number in range(1500)]
    rest = {name: mac for name, mac in there.items() if name != "real7"}
    balancer.serve(SERVICE, rest)
    assert [goes_to(balancer, request(number)) for number in range(1500)] == before, "it leaves"
    balancer.remove(SERVICE, "real7")
    after = [goes_to(balancer, request(number)) for number in range(1500)]
    moved = [number for number in range(1500) if after[number] != before[number]]
    assert moved == [number for number in range(1500) if before[number] == there["real7"]]
    assert balancer.counts()["moved"] == len(moved) > 5
    anew = [goes_to(balancer, request(number, SYN)) for number in range(1500)]
    assert anew == [there[by_table(request(number), [*rest])] for number in range(1500)]
    old, new = np.array(names)[model_table(names)], np.array([*rest])[model_table([*rest])]
    least = np.count_nonzero(old == "real7")
    assert least <= np.count_nonzero(old != new) <= 2 * least


def test_whoever_comes_to_the_place_of_one_that_went_gets_none_of_its_connections(
    balancer: LoadBalancer,
) -> None:
    first, second, third = reals(3).items()
    balancer.serve(SERVICE, dict([first]))
    goes_to(balancer, request(1))
    balancer.serve(SERVICE, dict([second]))
    balancer.remove(SERVICE, first[0])
    other = Service(VIP, 81, TCP)
    balancer.serve(other, dict([third]))  # third has first's place among the reals now
    assert goes_to(balancer, request(1)) == second[1]


def test_connections_that_find_no_room_are_counted(balancer: LoadBalancer) -> None:
    there = reals(100)
    balancer.serve(SERVICE, there)
    for number in range(6000):  # 4,096 are remembered at most
        assert goes_to(balancer, request(number)) == there[by_table(request(number), [*there])]
    known = 6000 - balancer.forgotten()
    assert 2048 < known <= 4096, "those that were used last"


def test_whatever_is_no_request_is_left_alone(balancer: LoadBalancer) -> None:
    balancer.serve(SERVICE, reals(3))
    seen: Counter[str] = Counter()
    others = [request(1, macs=CLIENT + MAC), request(1, macs=b"\xff" * 6 + CLIENT)]
    for frame in [*frames(7, 1500, macs=MAC + CLIENT), *others]:
        before = balancer.counts()
        tried = run(balancer.program, frame)
        packet = parse(frame)
        name = (
            "malformed" if not packet.is_whole else "fragments" if packet.is_fragment
            else "not_served"
        )  # fmt: skip
        assert (tried.verdict, tried.frame) == (PASS, frame), frame.hex()
        expected = {} if frame in others else {name: 1}
        assert Counter(balancer.counts()) - Counter(before) == expected
        seen.update(expected)
    assert min(seen.values()) > 100
    assert len(seen) == 3


def test_tagged_frames_and_ipv6_are_served_as_well(balancer: LoadBalancer) -> None:
    there = reals(5)
    balancer.serve(SERVICE, there)
    tagged = ethernet(request(3)[14:], 0x0800, tags=(0x8100,), macs=MAC + CLIENT)
    assert goes_to(balancer, tagged) == goes_to(balancer, request(3))
    vip = ip_address("fd00::9")
    balancer.serve(Service(vip, 53, UDP), there)
    packet = ipv6(0xFD00 << 112 | 7, int(vip), UDP, segment(UDP, 5, 53))
    frame = ethernet(packet, 0x86DD, macs=MAC + CLIENT)
    assert goes_to(balancer, frame) == there[by_table(frame, [*there])]


def test_no_packet_is_lost_while_reals_change(balancer: LoadBalancer) -> None:
    """A million live frames, while reals come and go."""
    count, there = 1_000_000, reals(100)
    balancer.serve(SERVICE, there)
    with wire.namespace():
        wire.veth("v0", "v1")
        wire.run("ethtool -K v1 gro on")
        with attach_xdp(balancer.program, "v0"):
            sender = threading.Thread(
                target=run_live, kwargs={"ingress": "v0", "restored": 12},
                args=(balancer.program, [request(number) for number in range(1000)], count),
            )  # fmt: skip
            sender.start()
            changes = 0
            while sender.is_alive():
                gone = f"real{changes % 100}"
                balancer.serve(SERVICE, {name: mac for name, mac in there.items() if name != gone})
                balancer.serve(SERVICE, there)
                changes += 1
            sender.join()
    counts = balancer.counts()
    assert counts["by_table"] + counts["by_connection"] == count
    assert sum(counts.values()) - counts["moved"] - counts["remembered"] == count
    assert changes > 1
