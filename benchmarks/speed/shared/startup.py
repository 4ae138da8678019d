"""Time from P4 source to first forwarded packet: compile, start a switch, send packets.

The baseline is the start of Python with the libraries that a switch imports.
"""

import os
import socket
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.speed.shared.pipeline import PROGRAMS, frame
from benchmarks.speed.shared.switch_chain import Processes, resident_mb
from telemark.processes import run_command

ETH_P_ALL = 3
# libraries of the server of a switch
LIBRARIES = "import asyncio, grpc, time; from finsy.proto import p4r_grpc"


def measure_libraries(processes: Processes) -> tuple[float, float]:
    """Return the time to import LIBRARIES in seconds, and the memory of Python in MB."""
    start_s = time.monotonic()
    script = f"{LIBRARIES}; print('ready', flush=True); time.sleep(600)"
    python = processes.start_ready([sys.executable, "-c", script])
    return time.monotonic() - start_s, resident_mb(python)


def first_packet_s(processes: Processes, cache: Path) -> float:
    """Return the time to the first packet in seconds; `cache` is the folder of compiled code."""
    run_command("ip link add name g type veth peer name a")
    run_command("ip link add name b type veth peer name t")
    for name in ("g", "a", "b", "t"):
        run_command(f"ip link set dev {name} up")
    try:
        return _measure(processes, {**os.environ, "XDG_CACHE_HOME": str(cache)})
    finally:
        run_command("ip link del dev g")
        run_command("ip link del dev b")


def _measure(processes: Processes, environment: dict[str, str]) -> float:
    minip4 = [sys.executable, "-m", "minip4.cli"]
    with (
        tempfile.TemporaryDirectory(dir=processes.folder) as folder,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as receiver,
    ):
        sender.bind(("g", 0))
        receiver.bind(("t", ETH_P_ALL))
        receiver.settimeout(0.002)
        output = f"{folder}/ipv4_lpm.json"
        source = str(PROGRAMS / "ipv4_lpm.p4")
        start_s = time.monotonic()
        compiler = processes.start([*minip4, "compile", "-DENTRIES", source, "-o", output],
                                   env=environment)  # fmt: skip
        processes.finish(compiler)
        switch = processes.start(
            [*minip4, "switch", output, "-i", "1@a", "-i", "2@b", "--grpc-server-addr",
             "127.0.0.1:0", "--counters", "/dev/null"], env=environment,
        )  # fmt: skip
        while True:
            sender.send(frame(0x0A000001))
            try:
                receiver.recv(2048)
            except TimeoutError:
                continue
            took_s = time.monotonic() - start_s
            switch.kill()
            switch.wait()
            return took_s
