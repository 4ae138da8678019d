"""The load balancer: its table compared with Maglev's paper, and the real server of each packet."""

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address

import numpy as np
import pytest
import wire
from bad_frames import TCP, UDP, ethernet, frames, ipv4, ipv6, segment
from packet_model import WITH_PORTS, Packet, parse

from collectors.dta.hashes import murmur3
from ebpf.datapath import load_balancer
from ebpf.datapath.load_balancer import (
    MAX_REALS,
    SOURCE,
    LoadBalancer,
    Service,
)
from ebpf.loader import LoadError, attach_xdp, load, run, run_live

PASS, TX, DROP = 2, 3, 1
MAC, CLIENT = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000c")
VIP, VIP6 = ip_address("10.9.9.9"), ip_address("fd00::9")
SERVICE = Service(VIP, 80, TCP)
SYN, ACK = 0x02, 0x10
ICMP, ICMPV6 = 1, 58


def reals(count: int) -> dict[str, bytes]:
    return {f"real{i}": b"\x02\x01\x00\x00" + i.to_bytes(2, "big") for i in range(count)}


@pytest.fixture
def balancer() -> Iterator[LoadBalancer]:
    if os.geteuid():
        pytest.skip("BPF needs root")
    with load(SOURCE, {"balancer_mac": [*MAC]}, {"flows": 4096}) as loaded:
        yield LoadBalancer(loaded)


def request(number: int, flags: int = ACK, *, macs: bytes = MAC + CLIENT) -> bytes:
    """Return a packet of connection `number`."""
    source, port = 0x0A000000 | number % 1000, 1024 + number // 1000
    return ethernet(ipv4(source, int(VIP), TCP, segment(TCP, port, 80, flags)), 0x0800, macs=macs)


def goes_to(balancer: LoadBalancer, frame: bytes) -> bytes:
    """Return the MAC address of the real server to which the balancer sends a frame.

    Assert that the rest of the frame is unchanged.
    """
    tried = run(balancer.program, frame)
    assert tried.verdict == TX
    assert tried.frame[6:] == MAC + frame[12:]
    return tried.frame[:6]


def by_table(frame: bytes, names: list[str]) -> str:
    """Return the name of a connection's real server, by the parser, hash and table of the model."""
    packet = parse(frame)
    ports = packet.source_port.to_bytes(2, "big") + packet.destination_port.to_bytes(2, "big")
    flow = packet.source + packet.destination + ports + bytes([packet.protocol, 0, 0, 0])
    place = int(murmur3(np.frombuffer(flow, "<u4")[None], 0)[0]) * load_balancer.PLACES >> 32
    return names[model_table(names)[place]]


def model_table(names: list[str], places: int = load_balancer.PLACES) -> list[int]:
    """Return the table by pseudocode 1 of Maglev's paper (3.4). It computes whole permutations."""
    return _model_table(tuple(names), places)


@cache
def _model_table(names: tuple[str, ...], places: int) -> list[int]:
    orders = np.array([load_balancer._order(name, places) for name in names])
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
    table = load_balancer.maglev_table(names, places)
    assert table.tolist() == model_table(names, places)
    shares = np.bincount(table, minlength=count)
    assert shares.max() - shares.min() <= 1, "each has as many places, or one more"


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
    """When a real server is removed, only its own connections move to other real servers.

    Connections that are opened again follow the new table.
    """
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
    reopened = [goes_to(balancer, request(number, SYN)) for number in range(1500)]
    assert reopened == [there[by_table(request(number), [*rest])] for number in range(1500)]
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
    # `third` now has the position of `first` among the real servers
    balancer.serve(other, dict([third]))
    assert goes_to(balancer, request(1)) == second[1]


def test_connections_that_find_no_room_are_counted(balancer: LoadBalancer) -> None:
    there = reals(100)
    balancer.serve(SERVICE, there)
    for number in range(6000):  # more than the 4,096 connections for which the map has room
        assert goes_to(balancer, request(number)) == there[by_table(request(number), [*there])]
    known = 6000 - balancer.forgotten()
    assert 2048 < known <= 4096, "those that were used last"


def test_a_full_balancer_refuses_and_goes_on(
    balancer: LoadBalancer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_balancer, "MAX_SERVICES", 2)
    there = reals(1)
    with pytest.raises(LoadError, match=r"^4097 reals: expected 1 to 4096$"):
        balancer.serve(SERVICE, reals(MAX_REALS + 1))
    for number in range(2):
        balancer.serve(Service(VIP, 80 + number, TCP), there)
    with pytest.raises(LoadError, match=r"^no room for another service; at most 2 are supported$"):
        balancer.serve(Service(VIP, 82, TCP), there)
    assert goes_to(balancer, request(1)) == there["real0"]


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


SERVED = [Service(vip, 80, protocol) for vip in (VIP, VIP6) for protocol in WITH_PORTS]


def outcome(packet: Packet, known: set[bytes]) -> str:
    """Return the counter that a frame to the balancer must increment, if it serves SERVED.

    A new connection is added to `known`.
    """
    if not packet.is_whole or packet.is_fragment:
        return "fragments" if packet.is_whole else "malformed"
    to = packet.destination + packet.destination_port.to_bytes(2, "big") + bytes([packet.protocol])
    if not any(to == service.key[: len(to)] for service in SERVED):
        return "not_served"
    connection = packet.source + packet.source_port.to_bytes(2, "big") + to
    is_new = connection not in known or packet.tcp_flags & (SYN | ACK) == SYN
    known.add(connection)
    return "by_table" if is_new else "by_connection"


def kinds(packet: Packet) -> Iterator[str]:
    """Yield the unusual properties of a frame that the balancer must send to a real server."""
    if packet.vlans:
        yield "tags"
    if packet.transport_offset - packet.network_offset > (20 if packet.version == 4 else 40):
        yield "options, or a chain"


def test_bad_frames_to_services_go_to_the_real_of_their_connection_or_nowhere(
    balancer: LoadBalancer,
) -> None:
    there = reals(10)
    for service in SERVED:
        balancer.serve(service, there)
    known, odd, counts = set[bytes](), Counter[str](), Counter[str]()
    for frame in frames(8, 3000, macs=MAC + CLIENT, to=(int(VIP), int(VIP6))):
        packet, tried = parse(frame), run(balancer.program, frame)
        expected = outcome(packet, known)
        if expected in ("by_table", "by_connection"):
            real = there[by_table(frame, [*there])]
            assert (tried.verdict, tried.frame) == (TX, real + MAC + frame[12:]), frame.hex()
            odd.update(kinds(packet))
        else:
            assert (tried.verdict, tried.frame) == (PASS, frame), frame.hex()
        counts[expected] += 1
        counts["remembered"] = len(known)
        assert +Counter(balancer.counts()) == counts, frame.hex()
    assert (len(counts), len(odd)) == (6, 2)  # all counters and all unusual properties occurred
    assert min(*counts.values(), *odd.values()) > 10, (counts, odd)


def answer(number: int, *, options: bytes = b"", fragment: int = 0) -> bytes:
    """Return a packet of a real server in connection `number`, starting at the IP header."""
    client, port = 0x0A000000 | number % 1000, 1024 + number // 1000
    payload = segment(TCP, 80, port) + bytes(1000)
    return ipv4(int(VIP), client, TCP, payload, options=options, fragment=fragment)


def answer6(number: int) -> bytes:
    """Return a UDP packet of a real server with source VIP6, starting at the IP header."""
    payload = segment(UDP, 53, 1024 + number) + bytes(1000)
    return ipv6(int(VIP6), 0xFD00 << 112 | number, UDP, payload)


def error(quoted: bytes, kind: int = 3, *, to: int = int(VIP), tags: tuple[int, ...] = ()) -> bytes:
    """Return the ICMP error (RFC 792) that a router sends about the packet `quoted`."""
    return ethernet(ipv4(0xC0A80105, to, ICMP, bytes([kind, 4]) + bytes(6) + quoted), 0x0800,
                    tags=tags, macs=MAC + CLIENT)  # fmt: skip


def error6(quoted: bytes, kind: int = 2) -> bytes:
    """Return the ICMPv6 error (RFC 4443) that a router sends about the packet `quoted`."""
    return ethernet(ipv6(1, int(VIP6), ICMPV6, bytes([kind, 0]) + bytes(6) + quoted), 0x86DD,
                    macs=MAC + CLIENT)  # fmt: skip


ERRORS = {
    "unreachable": lambda number: error(answer(number)[:28]),
    "fragmentation needed": lambda number: error(answer(number)[:548]),
    "time exceeded": lambda number: error(answer(number)[:28], 11),
    "parameter problem": lambda number: error(answer(number)[:28], 12),
    "options within": lambda number: error(answer(number, options=bytes(12))[:40]),
    "first fragment": lambda number: error(answer(number, fragment=0x2000)[:28]),
    "tagged": lambda number: error(answer(number)[:28], tags=(0x88A8, 0x8100)),
}
NO_ERRORS = {
    "echo": lambda number: error(answer(number)[:28], 8),
    "redirect": lambda number: error(answer(number)[:28], 5),
    "no ports": lambda number: error(answer(number)[:23]),
    "no header": lambda number: error(answer(number)[:19]),
    "later fragment": lambda number: error(answer(number, fragment=1)[:28]),
    "to another": lambda number: error(answer(number)[:28], to=int(VIP) + 1),
    "another's": lambda number: error(ipv4(int(VIP) + 1, 7, TCP, segment(TCP, 80, 1024))),
    "another port": lambda number: error(ipv4(int(VIP), 7, TCP, segment(TCP, 81, 1024))),
    "lies": lambda number: error(b"\x44" + answer(number)[1:28]),
}


@pytest.mark.parametrize("which", ERRORS)
def test_an_error_goes_to_the_real_of_the_connection_it_is_about(
    balancer: LoadBalancer, which: str
) -> None:
    there = reals(100)
    balancer.serve(SERVICE, there)
    before = [goes_to(balancer, request(number)) for number in range(1500)]
    gone = next(name for name, mac in there.items() if mac == before[700])
    balancer.serve(SERVICE, {name: mac for name, mac in there.items() if name != gone})
    counts = balancer.counts()
    # the table no longer contains the real server of connection 700
    for number in (1, 700, 1499):
        assert goes_to(balancer, ERRORS[which](number)) == before[number]
    counts |= {"errors": counts["errors"] + 3}
    assert balancer.counts() == counts


def test_an_error_about_a_connection_that_is_not_known_goes_by_the_table(
    balancer: LoadBalancer,
) -> None:
    there = reals(100)
    balancer.serve(SERVICE, there)
    for number in range(100):
        name = by_table(request(number), [*there])
        assert goes_to(balancer, ERRORS["unreachable"](number)) == there[name]
    assert balancer.counts()["remembered"] == 0


def test_errors_of_ipv6_likewise(balancer: LoadBalancer) -> None:
    there = reals(100)
    balancer.serve(Service(VIP6, 53, UDP), there)
    for number in range(20):
        packet = ipv6(0xFD00 << 112 | number, int(VIP6), UDP, segment(UDP, 1024 + number, 53))
        real = goes_to(balancer, ethernet(packet, 0x86DD, macs=MAC + CLIENT))
        for kind in (1, 2, 3, 4):
            assert goes_to(balancer, error6(answer6(number)[:48], kind)) == real
        assert run(balancer.program, error6(answer6(number)[:48], 128)).verdict == PASS, "an echo"
    assert balancer.counts()["errors"] == 80


@pytest.mark.parametrize("which", NO_ERRORS)
def test_what_is_no_error_of_a_connection_is_left_alone(balancer: LoadBalancer, which: str) -> None:
    balancer.serve(SERVICE, reals(3))
    frame = NO_ERRORS[which](1)
    tried = run(balancer.program, frame)
    assert (tried.verdict, tried.frame) == (PASS, frame)
    assert (balancer.counts()["errors"], balancer.counts()["not_served"]) == (0, 1)


def test_errors_with_any_bytes_go_to_a_real_or_are_left_alone(balancer: LoadBalancer) -> None:
    there = reals(3)
    balancer.serve(SERVICE, there)
    rng, verdicts = random.Random(5), Counter[int]()
    for _ in range(1500):
        frame = bytearray(rng.choice([*ERRORS.values()])(rng.randrange(1000)))
        frame[rng.randrange(14, len(frame))] = rng.randrange(256)
        tried = run(balancer.program, bytes(frame[: rng.choice((None, rng.randrange(14, 90)))]))
        verdicts[tried.verdict] += 1
    assert {*verdicts} == {PASS, TX}
    counts = balancer.counts()
    assert verdicts[TX] == counts["errors"]
    assert sum(counts.values()) == 1500


def test_tagged_frames_and_ipv6_are_served_as_well(balancer: LoadBalancer) -> None:
    there = reals(5)
    balancer.serve(SERVICE, there)
    tagged = ethernet(request(3)[14:], 0x0800, tags=(0x8100,), macs=MAC + CLIENT)
    assert goes_to(balancer, tagged) == goes_to(balancer, request(3))
    balancer.serve(Service(VIP6, 53, UDP), there)
    packet = ipv6(0xFD00 << 112 | 7, int(VIP6), UDP, segment(UDP, 5, 53))
    frame = ethernet(packet, 0x86DD, macs=MAC + CLIENT)
    assert goes_to(balancer, frame) == there[by_table(frame, [*there])]


def test_no_packet_is_lost_while_reals_change(balancer: LoadBalancer) -> None:
    """The balancer forwards a million live frames while real servers are added and removed."""
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
