"""A host edge marks, counts and records each packet as a switch with p4src/ampm does."""

import ctypes
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network

import ampm_path
import pytest
import wire
from ampm_path import BLOCK, FIRST, IPV6_ADDRESSES, LAST, PULSE, SAMPLE, Switch, frame, frame_ipv6
from bad_frames import ethernet, frames
from scapy.layers.inet import IP, TCP, UDP, IPOption, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from ebpf.edge.ampm import MarkingEdge
from ebpf.edge.watch_list import Key
from ebpf.loader import LoadError, run
from ebpf.loader.libbpf import TestRun, library

SCHEDULE = Schedule(1 << 30)  # blocks of 18 minutes: no machine stalls for a part of one
L = SCHEDULE.block_us
METHODS = [
    Method.STEP, Method.PULSE, Method.DOUBLE, Method.MULTIPLEXED, Method.STEP | Method.HASHED,
    Method.MULTIPLEXED | Method.HASHED,
]  # fmt: skip
HAS_TAG = 1 << 4  # TP_STATUS_VLAN_VALID
ALL = ip_network("0.0.0.0/0")
FLOW_MON_ID = 0xA1B2C
OPTION = bytes.fromhex("1204a1b2c000")
MACS = bytes.fromhex("020000000002 020000000001")
ETHER = Ether(dst=MACS[:6], src=MACS[6:])
ADDRESSES = {"src": "10.0.0.1", "dst": "10.0.0.2"}
# A method treats the parts of a block differently. These times are in each of these parts, far from
# its ends.
TIMES_US = [
    block * L + part * L // 64 for block in (4, 5, 6) for part in (6, 19, 33, 33, 45, 58)
]  # fmt: skip


class Edge:
    """An edge for frames that depart from, or arrive at, one end of a veth pair.

    The test sets its clock.
    """

    def __init__(self, edge: MarkingEdge) -> None:
        self.edge = edge

    def watch_all(self, *, is_first: bool, methods: Method, dscp: int = 0) -> None:
        fields = {"methods": int(methods), "dscp": dscp, "is_first": int(is_first)}
        address, other = map(ip_network, IPV6_ADDRESSES)
        self.edge.watch({
            Key(ALL, ALL): {"flow": 0, "priority": 1, **fields},
            Key(address, other, flow_mon_id=FLOW_MON_ID): {"flow": 0, "priority": 2, **fields},
        })  # fmt: skip

    def set_time(self, time_us: int) -> None:
        """Set the clock that all nodes share to this time."""
        offset_us = time_us - time.monotonic_ns() // 1000
        self.edge.set_schedule(offset_us, SCHEDULE.block_shift, 0)

    def pass_on(self, data: bytes, time_us: int, *, outgoing: bool) -> bytes:
        """Return the frame that the edge passes on.

        The frame arrives some microseconds after `time_us`.
        """
        name = "ampm_leaving" if outgoing else "ampm_arriving"
        self.set_time(time_us)
        tried = run(self.edge.programs[name], data)
        assert tried.verdict == 0xFFFFFFFF  # TC_ACT_UNSPEC: the next program runs
        return tried.frame


@pytest.fixture
def edge(veth: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    monkeypatch.setattr(ampm_path, "SCHEDULE", SCHEDULE)
    with MarkingEdge(veth[0]) as edge:
        yield Edge(edge)


def switch_of(role: str, methods: Method) -> Switch:
    switch = Switch(role, methods, flows=0)
    switch.watch_all(role, methods)
    switch.watch_ipv6(role, methods, flow_mon_id=FLOW_MON_ID)
    return switch


ROUTER_ALERT = bytes.fromhex("05020000")
BESIDE = {
    "before another option": OPTION + ROUTER_ALERT,
    "between options": ROUTER_ALERT + OPTION + ROUTER_ALERT,
    "behind padding": bytes(24) + OPTION,  # ends at byte 32
    "at the end of 16 bytes": bytes.fromhex("3e06") + bytes(6) + OPTION,
    "at the end of 24 bytes": bytes.fromhex("3e0e") + bytes(14) + OPTION,
    "in a long header": OPTION + bytes.fromhex("3130") + bytes(48),
}
OTHERS = {
    "inside another option": bytes.fromhex("3e06") + OPTION,
    "behind 32 bytes": bytes(30) + OPTION,
    "across 32 bytes": bytes(26) + OPTION,
    "behind an option that exceeds the header": bytes.fromhex("3eff") + OPTION,
    "of another length": bytes.fromhex("1206") + OPTION[2:] + bytes(2),
}


def frame_of_options(options: bytes, kind: int = 0, units: int | None = None) -> bytes:
    """Return a frame with an options header, which is padded with zeros.

    `units` is the length that the header states, in eight bytes. The default is its real length.
    """
    units = units or -(-(2 + len(options)) // 8)
    header = (bytes((17, units - 1)) + options).ljust(8 * units, b"\0")
    src, dst = IPV6_ADDRESSES
    ip = IPv6(src=src, dst=dst, nh=kind, fl=0x12345)
    return bytes(ETHER / ip / Raw(header + bytes(UDP(sport=1, dport=2) / bytes(20))))


WHOLE = {
    "plain": frame(),
    "DSCP and ECN of its own": frame(tos=0xF3),
    "EF": frame(tos=0xB8),
    "options": frame(options=[IPOption(b"\x94\x04\x00\x00")]),
    "as many options as fit": frame(options=[IPOption(b"\x01")] * 40),
    "TCP": bytes(ETHER / IP(**ADDRESSES) / TCP(dport=80) / b"some data"),
    "first fragment": bytes(ETHER / fragment(IP(**ADDRESSES) / UDP() / bytes(99), 64)[0]),
    "last fragment": bytes(ETHER / fragment(IP(**ADDRESSES) / UDP() / bytes(99), 64)[1]),
    "wrong checksum": frame(chksum=0x1234),
    "longer than its IP packet": frame() + bytes(10),
    "shorter than it says": frame()[:36],
    "IPv6 with the option": frame_ipv6(OPTION, 7),
    "IPv6 with marks": frame_ipv6(OPTION[:4] + b"\xcf\xff", 7),
    "IPv6 in IPv6": bytes(
        ETHER / IPv6(src=IPV6_ADDRESSES[0], dst=IPV6_ADDRESSES[1], nh=0, fl=0x12345)
        / Raw(bytes((41, 0)) + OPTION) / IPv6() / UDP(sport=1, dport=2)
    ),
    "IPv6, another FlowMonID": frame_ipv6(b"\x12\x04\x00\x00\x10\x00", 7),
    "IPv6 with another option": frame_ipv6(bytes.fromhex("1e0400000000"), 7),
    **{f"IPv6, the option {name}, header {kind}": frame_of_options(options, kind)
       for name, options in {**BESIDE, **OTHERS}.items() for kind in (0, 60)},
    **{f"IPv6, the option behind a header of {8 * units} bytes":
       frame_of_options(bytes(8 * units - 2) + OPTION, units=units) for units in (1, 2, 3)},
    "IPv6 without it": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / UDP()),
    "VLAN": bytes(ETHER / Dot1Q(vlan=5) / IP(**ADDRESSES) / UDP()),
    "not IP": ethernet(bytes(50), 0x88CC, macs=MACS),
}  # fmt: skip


def same_records(edge: Edge, switch: Switch, methods: Method) -> None:
    """Compare the records of an edge with those of a switch. Times may differ by microseconds."""
    held = edge.edge.read(0)
    for colour in (0, 1):
        cell = held["cells"][colour]
        arrived, _ = switch.packets(0, colour)
        assert int(cell["packets"]) == arrived
        block, _ = switch.read(BLOCK, colour)
        assert [int(cell["block"][n]) for n in ("block_us", "packets")] == [
            block.block_us, block.values[0]
        ]  # fmt: skip
        lag_us = int(cell["block"]["sum_us"]) - block.values[1]
        assert 0 <= lag_us <= max(1, arrived) * L // 64
        pulse, _ = switch.read(PULSE, colour)
        assert [int(cell["pulse"][n]) for n in ("block_us", "pulses", "packets")] == [
            pulse.block_us, pulse.values[0], pulse.values[2]
        ]  # fmt: skip
        for place in range(8 * bool(methods & Method.HASHED)):
            sample, _ = switch.read(SAMPLE, 8 * colour + place)
            here = cell["samples"][place]
            assert [int(here[n]) for n in ("block_us", "samples", "hash")] == [
                sample.block_us, sample.values[0], sample.values[2]
            ]  # fmt: skip


def left(switch: Switch, data: bytes, time_us: int) -> bytes:
    ((_, out),) = switch.send(data, time_us)
    return out


@pytest.mark.parametrize("methods", METHODS, ids=str)
def test_packets_leave_marked_and_arrive_cleared_as_at_switches(
    edge: Edge, methods: Method
) -> None:
    first = switch_of(FIRST, methods)
    edge.watch_all(is_first=True, methods=methods)
    marked = []
    for time_us in TIMES_US:
        for data in WHOLE.values():
            here = edge.pass_on(data, time_us, outgoing=True)
            assert here == left(first, data, time_us)
            marked.append((time_us, here))
    same_records(edge, first, methods)
    assert len({data for _, data in marked}) > len(WHOLE)


@pytest.mark.parametrize("methods", METHODS, ids=str)
def test_marks_are_read_and_cleared_as_at_switches(edge: Edge, methods: Method) -> None:
    last = switch_of(LAST, methods)
    edge.watch_all(is_first=False, methods=methods)
    for time_us in TIMES_US:
        for data in WHOLE.values():
            for marks in range(4):
                seen = data[:15] + bytes([data[15] & 0xF3 | marks << 2]) + data[16:]
                here = edge.pass_on(seen, time_us, outgoing=False)
                assert here == left(last, seen, time_us)
    same_records(edge, last, methods)


def received(packets: socket.socket) -> bytes:
    """Return the next frame, as it was sent.

    The kernel has removed the outer VLAN tag of the frame, and reports the tag separately.
    """
    data, ancillary, _, _ = packets.recvmsg(65536, 256)
    status, *_, tci, tpid = struct.unpack("IIIHHHH", ancillary[0][2])  # struct tpacket_auxdata
    return data[:12] + struct.pack(">HH", tpid, tci) + data[12:] if status & HAS_TAG else data


def test_bad_frames_cross_a_veth_and_are_counted_as_at_switches(
    edge: Edge, veth: tuple[str, str]
) -> None:
    """Two edges mark and count valid and malformed frames as two switches do.

    The frames are sent over a veth pair, because the kernel cannot run a program on a frame with a
    truncated header.
    """
    methods = Method.DOUBLE | Method.HASHED
    first, last = (switch_of(role, methods) for role in (FIRST, LAST))
    edge.watch_all(is_first=True, methods=methods)
    time_us = 4 * L + 9 * L // 64
    # the kernel drops a frame with fewer than six bytes after a tag
    tags = (b"\x81\x00", b"\x88\xa8")
    many = [f for f in frames(3, 1500, macs=MACS) if len(f) >= 20 or f[12:14] not in tags]
    with MarkingEdge(veth[1]) as other, wire.end(veth[0]) as sender, wire.end(veth[1]) as receiver:
        far = Edge(other)
        far.watch_all(is_first=False, methods=methods)
        edge.set_time(time_us)
        far.set_time(time_us)
        for data in many:
            sender.send(data)
            marked = left(first, data, time_us)
            assert received(receiver) == marked, data.hex()
            left(last, marked, time_us)
        for here, switch in ((edge, first), (far, last)):
            same_records(here, switch, methods)
            kinds = here.edge.kinds()
            assert sum(kinds.values()) == len(many)
            assert min(kinds[name] for name in kinds if name != "unwritten") > 20
            assert kinds["unwritten"] == 0


@pytest.mark.parametrize("name", BESIDE)
def test_the_option_is_marked_beside_other_options(edge: Edge, name: str) -> None:
    edge.watch_all(is_first=True, methods=Method.STEP)
    data = frame_of_options(BESIDE[name])
    before, option, after = data.partition(OPTION)
    marked = edge.pass_on(data, 5 * L + L // 8, outgoing=True)
    assert marked == before + OPTION[:4] + b"\xc8" + option[5:] + after
    edge.watch_all(is_first=False, methods=Method.STEP)
    assert edge.pass_on(marked, 5 * L + L // 8, outgoing=False) == data


def test_random_options_are_walked_as_at_switches(edge: Edge) -> None:
    rng = random.Random(1)
    methods = Method.STEP | Method.HASHED
    first = switch_of(FIRST, methods)
    edge.watch_all(is_first=True, methods=methods)
    time_us = 5 * L + L // 8
    for _ in range(300):
        parts = [
            rng.randbytes(rng.choice([0, 0, 0, 0, 1, 3]))
            + rng.choice([b"\0", bytes.fromhex("0100"), ROUTER_ALERT, ROUTER_ALERT, OPTION])
            for _ in range(rng.randint(1, 6))
        ]
        data = frame_of_options(b"".join(parts), rng.choice([0, 60]))
        assert edge.pass_on(data, time_us, outgoing=True) == left(first, data, time_us), data.hex()
    same_records(edge, first, methods)
    assert 60 < edge.edge.kinds()["watched"] < 150


def test_what_comes_the_other_way_is_not_counted(edge: Edge) -> None:
    edge.watch_all(is_first=True, methods=Method.STEP)
    assert edge.pass_on(frame(), 5 * L + L // 8, outgoing=False) == frame()
    edge.watch_all(is_first=False, methods=Method.STEP)
    assert edge.pass_on(frame(), 5 * L + L // 8, outgoing=True) == frame()
    assert edge.edge.kinds()["unwatched"] == 2
    assert edge.edge.kinds()["watched"] == 0
    assert not any(cell["packets"] for cell in edge.edge.read(0)["cells"])


@pytest.mark.parametrize(
    "segment", [TCP(dport=80, options=[("NOP", None)] * 8), UDP()], ids=["TCP", "UDP"]
)
def test_what_the_kernel_will_cut_up_counts_as_it_will_be_on_the_wire(
    edge: Edge, segment: Packet
) -> None:
    edge.watch_all(is_first=True, methods=Method.DOUBLE)
    whole = bytes(ETHER / IP(**ADDRESSES) / segment / bytes(250))
    header = len(whole) - 250
    edge.set_time(5 * L + L // 2)
    context = bytearray(192)  # struct __sk_buff
    struct.pack_into("=I", context, 164, 3)  # gso_segs
    struct.pack_into("=I", context, 176, 100)  # gso_size
    given, program = bytes(context), edge.edge.programs["ampm_leaving"]
    options = TestRun(data_in=address(whole), data_size_in=len(whole), repeat=1,
                      context_in=address(given), context_size_in=len(given))  # fmt: skip
    assert library().bpf_prog_test_run_opts(program.fd, ctypes.byref(options)) == 0
    cell = edge.edge.read(0)["cells"][1]
    assert [int(cell[name]) for name in ("packets", "bytes")] == [3, 3 * header + 250]
    assert int(cell["block"]["packets"]) == 3
    assert int(cell["pulse"]["pulses"]) == 0
    edge.pass_on(whole, 5 * L + L // 2, outgoing=True)  # a frame that the kernel does not segment
    pulse = edge.edge.read(0)["cells"][1]["pulse"]
    assert [int(pulse[name]) for name in ("pulses", "packets")] == [1, 4]


def address(data: bytes) -> int | None:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


def test_processors_at_once_lose_nothing_and_choose_one_pulse(edge: Edge) -> None:
    count, program = 500_000, edge.edge.programs["ampm_leaving"]
    edge.watch_all(is_first=True, methods=Method.DOUBLE)
    edge.set_time(4 * L + L // 2)
    with ThreadPoolExecutor(2) as pool:
        for tried in [pool.submit(run, program, frame(), count) for _ in range(2)]:
            tried.result()
    cell = edge.edge.read(0)["cells"][0]
    assert [int(cell["packets"]), int(cell["block"]["packets"])] == [2 * count] * 2
    assert int(edge.edge.read(0)["running"]) == 2 * count
    assert int(cell["pulse"]["pulses"]) == 1


def test_the_narrowest_key_has_a_packet_and_what_is_no_longer_watched_none(edge: Edge) -> None:
    here, there = ip_network("10.0.0.1"), ip_network("10.0.0.2")
    fields = {"methods": 1, "dscp": 0, "is_first": 1}
    narrow = {
        Key(ALL, there): {"flow": 1, "priority": 10, **fields},
        Key(here, there, 17, None, 5000): {"flow": 2, "priority": 30, **fields},
        Key(here, there): {"flow": 3, "priority": 20, **fields},
        Key(here, ip_network("10.0.0.3")): {"flow": 4, "priority": 40, **fields},
    }
    counted = []
    while narrow:
        edge.edge.watch(narrow)
        edge.pass_on(frame(), L // 8, outgoing=True)
        counted.append([int(edge.edge.read(n)["cells"][0]["packets"]) for n in range(1, 5)])
        narrow.pop(
            max(narrow, key=lambda key: narrow[key]["priority"] * (key.destination == there))
        )
        if all(key.destination != there for key in narrow):
            break
    assert counted == [[0, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0]]
    edge.edge.watch({})
    edge.pass_on(frame(), L // 8, outgoing=True)
    assert edge.edge.kinds()["unwatched"] == 1


def test_more_kinds_of_keys_than_there_are_places_for_are_refused(edge: Edge) -> None:
    fields = {"flow": 1, "priority": 1, "methods": 1, "dscp": 0, "is_first": 1}
    keys = [Key(ip_network(f"10.0.0.0/{length}"), ALL) for length in range(9, 26)]
    for some in (keys[:16], keys[1:]):  # the second list reuses the entry of the first flow
        edge.edge.watch(dict.fromkeys(some, fields))
    with pytest.raises(LoadError, match="17 masks; at most 1024 flows and 16 masks"):
        edge.edge.watch(dict.fromkeys(keys, fields))


HOLDER = """
import signal, time
from ipaddress import ip_network
from ebpf.edge.ampm import MarkingEdge
from ebpf.edge.watch_list import Key
every = ip_network("0.0.0.0/0")
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells in background ignore it
with MarkingEdge("v0") as edge:
    edge.set_schedule((1 << 40) - time.monotonic_ns() // 1000, 40, 0)  # colour 1 from now on
    fields = {"flow": 0, "priority": 1, "methods": 1, "dscp": 0, "is_first": 1}
    edge.watch({Key(every, every): fields})
    print(flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_no_program_is_left_of_who_ends(veth: tuple[str, str], sent: signal.Signals) -> None:
    with (
        wire.end(veth[0]) as sender,
        wire.end(veth[1]) as receiver,
        subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as holder,
    ):

        def is_marked() -> bool:
            sender.send(frame())
            return received(receiver) != frame()

        assert holder.stdout
        holder.stdout.readline()
        assert is_marked()
        holder.send_signal(sent)
        holder.wait()
        wire.await_true(lambda: not is_marked())
