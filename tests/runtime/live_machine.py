"""Scenes of live.py with a full disk, with interfaces that disappear, and with many interfaces."""

import os
import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import finsy as fy
from rig import CPU_PORT, DEADLINE_S, FORWARDED, FRAME, Host, Switch, ip, make_link


async def full_disk(folder: Path) -> None:
    """The disk has no room for captures, the trace and counters.

    The switch prints a line for each of these three, and forwards all frames.
    """
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(small)], check=True)
    switch = Switch(folder, "--pcap", str(small), "--trace", str(small / "trace"), "--counters",
                    str(small / "counters"), p4info=True, stderr=subprocess.PIPE)  # fmt: skip
    left, right = Host("p1"), Host("p2")
    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
    for _ in range(1000):
        left.send(FORWARDED)
        assert right.receive() == FORWARDED
    switch.process.send_signal(signal.SIGTERM)
    _, told = switch.process.communicate(timeout=DEADLINE_S)
    assert switch.process.returncode == 1
    lines = told.splitlines()
    full = "No space left on device"
    assert len(lines) == 3, told
    assert re.fullmatch(
        f"minip4 switch: error: cannot write {small}/v[12]_.*pcap: {full}", lines[0]
    )
    assert lines[1:] == [
        f"minip4 switch: error: --trace {small}/trace: {full}",
        f"minip4 switch: error: --counters {small}/counters: {full}",
    ]
    subprocess.run(["umount", str(small)], check=True)


async def many_ports(folder: Path) -> None:
    """A switch with many ports and captures forwards from each port, and to each port."""
    count = int(os.environ.get("PORTS", "64"))
    numbers = [number for number in range(1, count + 1) if number != CPU_PORT]
    for number in numbers[2:]:
        make_link(str(number))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(count, 64), hard)
    )  # a limit of open files that the switch must raise
    more = [word for n in numbers[2:] for word in ("-i", f"{n}@v{n}")]
    captures = folder / "captures"
    captures.mkdir()
    switch = Switch(folder, "--pcap", str(captures), *more, p4info=True)
    print(f"{len(numbers)} ports: ready after {switch.start_s:.1f} s, {switch.rss_mb():.0f} MB")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hosts = {number: Host(f"p{number}") for number in numbers}
    async with switch.controller() as sw:
        await sw.write([+to_port(n) for n in hosts])
    for number, before in zip(numbers, (numbers[-1], *numbers), strict=False):
        frame = b"\2\0\0\1" + number.to_bytes(2, "big") + FRAME[6:]
        hosts[before].send(frame)
        assert hosts[number].receive() == frame
    counters = switch.stop()
    assert all(p["received_packets"] == p["transmitted_packets"] == 1
               for p in counters["ports"].values())  # fmt: skip
    assert len(list(captures.iterdir())) == 2 * len(numbers)


def to_port(number: int) -> fy.P4TableEntry:
    match = fy.Match(destination=0x0200_0001_0000 + number)
    return fy.P4TableEntry("switching", match=match, action=fy.Action("forward", port=number))


async def interfaces(folder: Path) -> None:
    """Interfaces of the switch go down, or are deleted and made again.

    Then the switch forwards again.
    """
    switch = Switch(folder, p4info=True, stderr=subprocess.PIPE)
    told: list[str] = []
    listener = threading.Thread(target=told.extend, args=(switch.process.stderr,), daemon=True)
    listener.start()

    def flows() -> None:
        """Send frames from p1 until one arrives at p2. The switch may notice the change late."""
        left, right = Host("p1"), Host("p2")
        right.wait_at_most(0.05)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            left.send(FORWARDED)
            try:
                assert right.receive() == FORWARDED
                return
            except TimeoutError:
                assert time.monotonic() < deadline

    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
        flows()
        for interface in ("v2", "p2"):
            ip("link", "set", interface, "down")
            Host("p1").send(FORWARDED)
            ip("link", "set", interface, "up")
            flows()
        for number in "21":
            for _ in range(3):
                ip("link", "del", f"v{number}")
                make_link(number)
                flows()
        ip("link", "del", "v2")
        Host("p1").send(FORWARDED)
        make_link("2")
        flows()
    counters = switch.stop()
    listener.join()
    assert counters["ports"]["1"]["received_packets"] >= 9, "they go on over new interfaces"
    assert sum("v2: attached to the new interface of this name" in line for line in told) == 4
    assert sum("v1: attached to the new interface of this name" in line for line in told) == 3
    assert all("went down" in line or "attached" in line for line in told), told
