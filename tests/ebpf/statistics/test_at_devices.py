"""Statistics at XDP and tc, compared with a capture. New windows begin while packets arrive."""

import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore

import pytest
import wire
from bad_frames import UDP, ethernet, ipv4, segment

from ebpf.loader import attach_tc, attach_xdp, load, run_live
from ebpf.statistics.flows import KEY
from ebpf.statistics.program import Kept, Setting, Statistics, Window, load_statistics

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")

PACKETS, PARTS, FLOWS = 30_000, 10, 300
SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE, ETH_P_ALL = 263, 6, 33, 3
PATIENCE_S = 120  # timeout, long enough for a loaded machine
TCP_BYTES = 1 << 19
TRANSFERS = 50  # max number, until a packet has more than 64 KB
SENDING = 'SEC("xdp") int example(struct xdp_md *packet) { return XDP_TX; }'


def captured(tap: socket.socket) -> list[bytes]:
    """Return the frames that arrived at the packet socket since the last call."""
    frames = []
    while True:
        try:
            frame, (_, _, kind, *_) = tap.recvfrom(2048, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        if kind != socket.PACKET_OUTGOING:
            frames.append(frame)
    _, dropped = struct.unpack("II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    assert dropped == 0, "the capture itself missed packets"
    return frames


def together(windows: list[Window]) -> Window:
    return sum(windows[1:], start=windows[0])


def seen(windows: list[Window]) -> int:
    return sum(each.totals.packets + each.totals.ignored for each in windows)


def by_port(window: Window) -> Counter[int]:
    """Return the number of packets of each source port."""
    ports = window.counted.keys.view(KEY)["source_port"].ravel()
    return Counter(dict(zip(ports.tolist(), window.counted.counts.tolist(), strict=True)))


def test_each_packet_of_a_capture_is_in_one_window_at_xdp_and_at_tc(
    veth: tuple[str, str], write_bpf: Callable[[str], Path]
) -> None:
    device, peer = veth
    frames = [
        ethernet(ipv4(0x0A000001, 0x0A000002, UDP, segment(UDP, 1000 + flow, 9)), 0x0800)
        for flow in range(FLOWS)
    ]
    setting = Setting(Kept.COUNTERS | Kept.DISTINCT, groups=1024)
    with (
        load_statistics(setting) as first, load_statistics(setting) as second,
        load(write_bpf(SENDING)) as sender,
        attach_xdp(first.at_xdp, device), attach_tc(second.at_tc, device),
        attach_xdp(sender.programs["example"], peer), ThreadPoolExecutor(1) as other,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap,
    ):  # fmt: skip
        tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        tap.bind((device, ETH_P_ALL))
        places: dict[Statistics, list[Window]] = {first: [], second: []}
        ahead = Semaphore(2)  # at most two parts are sent before the window changes

        def send() -> None:
            for _ in range(PARTS):
                ahead.acquire()
                run_live(sender.programs["example"], frames, PACKETS // PARTS, ingress=peer)

        sending = other.submit(send)
        taken, until = list[bytes](), time.monotonic() + PATIENCE_S
        while True:
            is_over = sending.done()
            taken += captured(tap)
            for place, windows in places.items():
                windows.append(place.flip())
            ahead.release()
            if is_over and {*map(seen, places.values())} == {len(taken)}:
                break
            assert time.monotonic() < until, (len(taken), [*map(seen, places.values())])
        sending.result()
    true = Counter(struct.unpack_from(">H", frame, 34)[0] for frame in taken if frame[23] == UDP)
    assert len(true) == FLOWS
    for windows in places.values():
        assert sum(each.totals.packets > 0 for each in windows) > 1, "windows did turn meanwhile"
        whole = together(windows)
        assert by_port(whole) == true
        assert whole.totals.bytes == sum(map(len, taken))
        assert whole.totals.uncounted == 0
        assert whole.registers.estimate == pytest.approx(FLOWS, rel=0.1)


def test_tc_counts_packets_whose_payload_is_in_pages(veth: tuple[str, str]) -> None:
    """The program at tc counts the packets of a TCP flow over the interface lo.

    The longest packets have many segments, and more than 64 KB with the headers. Their payload is
    in pages, outside the linear part of the buffer. The length of packets depends on the speed of
    the receiver, so the first transfer may have shorter ones.
    """
    wire.run("ip link set lo up")
    setting = Setting(Kept.COUNTERS | Kept.QUANTILES, groups=64)
    with (
        load_statistics(setting) as statistics, attach_tc(statistics.at_tc, "lo"),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):  # fmt: skip
        port = sender.getsockname()[1]
        for _ in range(TRANSFERS):
            with ThreadPoolExecutor(1) as other:
                sending = other.submit(sender.sendall, bytes(TCP_BYTES))
                left = TCP_BYTES
                while left:
                    left -= len(receiver.recv(left))
                sending.result()
            window = statistics.flip()
            assert window.totals.ignored == 0
            assert window.totals.bytes > TCP_BYTES
            assert (
                window.lengths.counts.sum() == window.totals.packets == window.counted.counts.sum()
            )
            assert by_port(window)[port] > 0
            if window.lengths.quantile(1) > 1 << 16:
                return
    raise AssertionError(f"no packet of more than 64 KB in {TRANSFERS} transfers")


def test_tc_looks_for_headers_beyond_a_packets_head(veth: tuple[str, str]) -> None:
    """The program at tc counts a large frame, although its IP header is not in the linear part.

    The linear part of the buffer has only the MAC addresses of the frame. A packet socket puts the
    rest into pages.
    """
    device, peer = veth
    for end in veth:
        wire.run(f"ip link set {end} mtu 9000")
    packet = ipv4(0x0A000001, 0x0A000002, UDP, segment(UDP, 1234, 9) + bytes(6000))
    with (
        load_statistics(Setting(Kept.COUNTERS, groups=64)) as statistics,
        attach_tc(statistics.at_tc, device), wire.end(peer) as sender,
    ):  # fmt: skip
        sender.send(ethernet(packet, 0x0800))
        window = statistics.flip()
    assert by_port(window) == {1234: 1}
    assert window.totals.bytes == 14 + len(packet)
