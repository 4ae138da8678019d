"""Telemetry Reports for benchmarks: of INT-MD over five hops; and a process that sends them.

    python _int_reports.py INTERFACE ADDRESS COLLECTOR PORT REPORTS DATAGRAMS_PER_S SECONDS

It says that it is here, waits for the interface, says that it is ready, and waits for a line; then
it sends, and prints how many.
"""

import socket
import struct
import subprocess
import sys
import time

HOPS, FLOWS = 5, 1000
INT_PORT = 5000
TIMEOUT_S = 10.0
AT_ONCE = 10  # reports in a datagram of an MTU of 1500 bytes


def report(flow: int, packet: int) -> bytes:
    """An inner packet, with node, interfaces, latency and queue (0xF000) of each hop."""
    stack = b"".join(
        struct.pack("!IHHII", HOPS - hop, 1, 2, 20 + hop, flow % 7) for hop in range(HOPS)
    )
    shim = struct.pack("!BBH", 0x14, 3 + len(stack) // 4, 80)
    header = struct.pack("!BBBBHHHH", 0x20, 0, 4, 10, 0xF000, 0, 0, 0)
    above = shim + header + stack + packet.to_bytes(16, "big")
    udp = struct.pack("!HHHH", 1024 + flow, INT_PORT, 8 + len(above), 0)
    ip = struct.pack(
        "!BBHHHBBHII", 0x45, 0, 28 + len(above), 0, 0, 60, 17, 0, 0x0A000001, 0x0A000002
    )
    inner = ip + udp + above
    return struct.pack("!BBBB", 0x04, len(inner) // 4, 0, 0x20) + inner


def datagrams(reports: int, number: int) -> list[bytearray]:
    """So many datagrams of so many reports each, of many flows in turn."""
    found = []
    for first in range(0, number * reports, reports):
        body = b"".join(report(each % FLOWS, each) for each in range(first, first + reports))
        found.append(bytearray(struct.pack("!II", 2 << 28 | first // reports, 7) + body))
    return found


def send(address: tuple[str, int], reports: int, rate: float, seconds: float) -> int:
    """Send at a steady rate, numbers in sequence; returns how many datagrams."""
    payloads = datagrams(reports, 2048)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(address)
        begin, sent = time.monotonic(), 0
        while (now := time.monotonic() - begin) < seconds:
            while sent < now * rate:
                payload = payloads[sent % len(payloads)]
                struct.pack_into("!I", payload, 0, 2 << 28 | sent & 0x3FFFFF)
                sender.send(payload)
                sent += 1
    return sent


def main() -> None:
    interface, own, collector, port, reports, rate, seconds = sys.argv[1:]
    print("here", flush=True)
    deadline = time.monotonic() + TIMEOUT_S
    while interface not in (name for _, name in socket.if_nameindex()):
        if time.monotonic() > deadline:
            sys.exit(f"{interface} does not come")
        time.sleep(0.01)
    for command in (f"address add {own}/24 dev {interface}", f"link set {interface} up"):
        subprocess.run(["ip", *command.split()], check=True)
    print("ready", flush=True)
    sys.stdin.readline()
    print(send((collector, int(port)), int(reports), float(rate), float(seconds)))


if __name__ == "__main__":
    main()
