"""The p4-learning benchmark: its output checks, its commands, and a run with a small network."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "compatibility"
GATE = Path(__file__).parents[2] / "importers" / "programs" / "gate.p4"
MAC = "00:00:0a:00:00:01"
EXAMPLE = "examples/ip_forwarding/p4app.json"


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import p4_learning  # noqa: PLC0415

    return p4_learning


def packet(host: str, protocol: int = 17, tos: int = 0, ethertype: str = "0800") -> str:
    """Return a line of print_frames.py: the name of the host, and a frame."""
    ip = f"45{tos:02x}{'00' * 7}{protocol:02x}{'00' * 10}"
    return f"{host}:{'00' * 12}{ethertype}{ip}\n"


def sent(*looks: tuple[int, ...], interfaces: str = "s1-eth2 s1-eth3 s1-eth4 s1-eth5") -> str:
    return "".join(
        f"sent {name}: {count}\n"
        for look in looks for name, count in zip(interfaces.split(), look, strict=True)
    )  # fmt: skip


def own(*came: str) -> str:
    return f"h1-eth0@if3      UP             {MAC} <UP>\n" + "".join(
        f"[!] Info: {each}\n" for each in came
    )


def marks(*counts: int) -> str:
    return "".join(packet(f"h{host}", ethertype="1234") * count
                   for host, count in enumerate(counts, start=1))  # fmt: skip


def ecn(*values: int) -> str:
    return "".join(packet("h3", tos=value) for value in values)


def hop(switch: int, port: int) -> str:
    return f"|  swid      = {switch}\n      |   |  qdepth    = 0\n |   |  portid    = {port}\n"


def ways(*looks: tuple[int, int]) -> str:
    return sent(*looks, interfaces="s2-eth2 s3-eth2")


REFLECTED = f"00:01:02:03:04:05 -> {MAC}"
NOT_EXCHANGED = f"{MAC} -> 00:01:02:03:04:05"
FLOW = "mininet> iperf h1 h2\n 300 Mbits/sec\n"
REFUSED = "mininet> iperf h2 h1\n*** iperf h2 h1: h1: no response within 30 s\n"
BEFORE = (7, 7, 7, 7)


@pytest.mark.parametrize(
    ("judge", "right", "wrong"),
    [
        ("check_reflection", own(REFLECTED, REFLECTED), own(REFLECTED, NOT_EXCHANGED)),
        ("check_reflection", own(REFLECTED), own()),
        ("check_multicast", marks(3, 3, 3, 3), marks(3, 3, 2, 3)),
        ("check_multicast", marks(3, 3, 3, 3), marks(0, 0, 0, 0)),
        ("check_balance", sent(BEFORE, (57, 47, 67, 57)), sent(BEFORE, (107, 57, 57, 7))),
        ("check_balance", sent(BEFORE, (57, 47, 67, 57)), sent(BEFORE, (57, 47, 67, 56))),
        ("check_flowlets", sent(BEFORE, (67, 7, 7, 7), (87, 27, 17, 17)),
         sent(BEFORE, (67, 7, 7, 7), (97, 27, 17, 7))),
        ("check_flowlets", sent(BEFORE, (67, 7, 7, 7), (87, 27, 17, 17)),
         sent(BEFORE, (22, 22, 22, 22), (42, 42, 32, 32))),
        ("check_meter", packet("h2") * 10, packet("h2") * 15),
        ("check_meter", packet("h2") * 10, packet("h2") * 5),
        ("check_routes", ways((1, 1), (2, 1), (2, 2)) + packet("h2") * 2,
         ways((1, 1), (1, 2), (2, 2)) + packet("h2") * 2),
        ("check_routes", ways((1, 1), (2, 1), (2, 2)) + packet("h2") * 2,
         ways((1, 1), (2, 1), (2, 2)) + packet("h2")),
        ("check_trace", "count     = 2\n" + hop(2, 1) + hop(1, 2),
         "count     = 2\n" + hop(1, 2) + hop(2, 1)),
        ("check_trace", "count     = 2\n" + hop(2, 1) + hop(1, 2), "count     = 1\n" + hop(2, 1)),
        ("check_tos_cells", "  [50] 50 (0x32)\n  [210] 210 (0xd2)\n", "  [50] 40 (0x28)\n"),
        ("check_ecn", ecn(1, 1, 3, 3), ecn(1, 1)),
        ("check_ecn", ecn(1, 1, 3, 3), ecn(3, 3)),
        ("check_firewall", FLOW + REFUSED, FLOW + FLOW),
    ],
)  # fmt: skip
def test_judges(judge: str, right: str, wrong: str, networks: ModuleType) -> None:
    assert getattr(networks, judge)(right) is None
    assert getattr(networks, judge)(wrong) is not None


def test_judges_of_counts(networks: ModuleType) -> None:
    flooded = partial(networks.check_flooding, [0, 1, 1, 1])
    assert flooded(marks(0, 1, 1, 1) + packet("h1")) is None
    assert flooded(marks(0, 1, 2, 1)) == "h1 to h4 received: [0, 1, 2, 1]"
    received = partial(networks.check_received, 17, 2)
    assert received(packet("h2") * 2 + packet("h2", protocol=1) + packet("h1")) is None
    assert received(packet("h2") * 3) == "h2's of protocol 17: 3"


def listed(values: list[int]) -> str:
    return f"Done\nRuntimeCmd: r= {', '.join(map(str, values))}\nRuntimeCmd: \n"


def dumped(values: list[int]) -> str:
    return "".join(f"  [{i}] {value} ({value:#x})\n" for i, value in enumerate(values) if value)


def test_registers_are_read_in_the_words_of_both_targets(networks: ModuleType) -> None:
    written = partial(networks.check_recirculations, lambda index: 255 - index)
    values = [255 - index for index in range(201)]
    for words in (listed, dumped):
        assert written(words(values + [0] * 55)) is None
        assert written(words(values[:200])) is not None
        assert written(words([*values, 1])) is not None


def test_words_of_the_commands_are_those_of_the_target(
    networks: ModuleType,
) -> None:
    commands = "register_read tos_register\nh1 {frames} h1-eth0 &"
    assert networks._commands(commands, "minip4").startswith("sh minip4 tables tos_register\n")
    read, listen = networks._commands(commands, "bmv2").splitlines()
    assert read == "sh echo register_read tos_register | simple_switch_CLI --thrift-port 9091"
    assert listen == f"h1 python3 {BENCHMARKS / 'shared' / 'print_frames.py'} h1-eth0 &"


LISTEN = f"""
import socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
command = [sys.executable, "{BENCHMARKS / "shared" / "print_frames.py"}", "lo"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout.readline() == "listening\\n"
    with socket.socket(type=socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        for text in (b"1", b"2"):  # the second one's are there when the first one's all are
            end.sendto(text, end.getsockname())
        print(*(process.stdout.readline()[-3:-1] for _ in "12"))
    process.kill()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_only_received_packets_are_printed() -> None:
    done = subprocess.run(["unshare", "-n", sys.executable, "-c", LISTEN], text=True, timeout=300,
                          capture_output=True, check=False)  # fmt: skip
    assert (done.stdout, done.stderr) == ("31 32\n", "")


def run(clone: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, BENCHMARKS / "p4_learning.py", clone, "--time", "virtual", "--only",
         EXAMPLE], capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_a_network_is_run(tmp_path: Path) -> None:
    path = tmp_path / EXAMPLE
    path.parent.mkdir(parents=True)
    shutil.copy(GATE, path.parent)
    commands = path.with_name("s1-commands.txt")
    route = "table_add routes forward 10.1.{0}.2/32 => 00:00:0a:01:0{0}:02 {0}\n"
    commands.write_text(route.format(1) + route.format(2))
    links = [["h1", "s1"], ["h2", "s1"]]
    topology = {"assignment_strategy": "l3", "links": links, "hosts": {"h1": {}, "h2": {}},
                "switches": {"s1": {"cli_input": commands.name}}}  # fmt: skip
    path.write_text(json.dumps({"p4_src": "gate.p4", "topology": topology}))
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"{EXAMPLE:64} yes\n1 of 1 passed: minip4, virtual time\n")
    commands.write_text("")
    done = run(tmp_path)
    assert done.returncode == 1
    assert f"{EXAMPLE:64} no: no " in done.stdout


def test_a_missing_clone_is_a_one_line_error(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"{tmp_path}: the folder has no {EXAMPLE}; pass a clone" in done.stderr
