"""Applications at hosts: the same class and packets in real and virtual time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from applications import Broken, Sender
from loaded import StartExperiment
from virtual_networks import WIRE, Pair, virtually

from telemark.apps.application import Application
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run

HERE = Path(__file__).parents[1]
MS = 1_000_000
HEAD = f"""
import sys
from contextlib import suppress
sys.path.insert(0, {str(HERE)!r})
from applications import *
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from virtual_networks import Pair, WIRE

MS = 1_000_000
"""

# h1 sends datagrams to three applications of h2, one of which responds
EXCHANGE = """
with Network(Pair(delay_us=500), run, program=WIRE) as net:
    h1, h2 = net.host("h1").IP(), net.host("h2").IP()
    counter = net.run_application("h2", Counter(5000))
    holding = net.run_application("h2", Counter(5001, hold_us=20_000))
    echo = net.run_application("h2", Echo(5002))
    after_ns = [MS * number for number in range(100)]
    sender = net.run_application("h1", Sender(after_ns, h2, 5000, 5001, 5002))
    await until_left(net, run, "s1", "h1", 100)  # the answers
due_ns, called_ns, answers = sender.result
metrics = {"due_ns": due_ns, "called_ns": called_ns, "h1": h1, "h2": h2,
           "sent": [a.sent for a in net.applications],
           "received": [a.received for a in net.applications]}
for name, (calls, came) in zip(("counter", "holding", "echo", "sender"),
                               (counter.result, holding.result, echo.result, ([], answers))):
    came = [(*d[:3], d.payload.hex(), d.dscp, d.ecn) for d in came]
    metrics[name] = {"calls": calls, "came": came}
accounting = PacketAccounting.from_network(net, {})
metrics["accounting"] = [accounting.sent, accounting.received, accounting.hosts_sent]
return Report(samples=[], checks=accounting.checks(), metrics=metrics)
"""


def metrics_of(start: StartExperiment, folder: Path, body: str, time: str) -> dict[str, Any]:
    process = start(body, "--time", time, "--out", str(folder), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics: dict[str, Any] = json.loads((folder / "summary.json").read_text())["metrics"]
    return metrics


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_collector_is_the_same_code_in_both_kinds_of_time(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    found = metrics_of(start_experiment, tmp_path, EXCHANGE, time)
    sent = [number.to_bytes(2, "big") + bytes(number) for number in range(100)]
    answers = [payload[::-1] for payload in sent]
    for name, payloads, source, links in (
        ("counter", sent, ("h1", 6000), 1),
        ("holding", sent, ("h1", 6000), 1),
        ("echo", sent, ("h1", 6000), 1),
        ("sender", answers, ("h2", 5002), 2),
    ):
        came = found[name]["came"]
        assert [bytes.fromhex(payload) for _, _, _, payload, *_ in came] == payloads
        marks = [(number % 64, number % 4) for number in range(100)]
        assert [(dscp, ecn) for *_, dscp, ecn in came] == marks
        assert {(address, port) for _, address, port, *_ in came} == {(found[source[0]], source[1])}
        for called_ns, (came_ns, *_) in zip(found["called_ns"], came, strict=True):
            assert came_ns >= called_ns + links * MS // 2
    assert all(
        called >= due for due, called in zip(found["due_ns"], found["called_ns"], strict=True)
    )
    assert (found["sent"], found["received"]) == ([0, 0, 100, 300], [100, 100, 100, 100])
    assert found["accounting"] == [400, 400, 400]
    counts = [count for _, count in found["holding"]["calls"]]
    assert sum(counts) == 100
    assert len(counts) < 50  # 20 datagrams arrive in 20 ms


CARD = """
def frame(number):
    head = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    if number % 2:
        head /= Dot1Q(vlan=7)
    return bytes(head / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=4791) / bytes(number))

sent = [bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src="00:00:00:00:00:01", type=0x9999) / (b"x" * 50)),
        *map(frame, range(9))]
with Network(Pair(), run, program=WIRE) as net:
    card = net.run_application("h2", Card())
    crafter = net.run_application("h1", Crafter(run.clock.now_ns() + 100 * MS, sent))
    await until_left(net, run, "s1", "h1", 9)
accounting = PacketAccounting.from_network(net, {})
came = pcap.read_frames(net.capture("s1", "h1", "out"))[1]
metrics = {"sent": [f.hex() for f in sent], "card": [f.hex() for f in card.result],
           "back": [f.hex() for f in came],
           "accounting": [accounting.sent, accounting.received, accounting.hosts_sent]}
return Report(samples=[], checks=accounting.checks()[:2], metrics=metrics)  # h1 claims no frames
"""


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_frames_come_and_go_as_they_are_and_the_kernel_says_nothing(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    """An application gets complete frames and sends complete frames; the kernel sends none.

    If the kernel processed the datagrams, it would send ICMP errors, because their UDP port is
    closed.
    """
    found = metrics_of(start_experiment, tmp_path, CARD, time)
    assert found["card"] == found["sent"]
    assert found["back"] == [frame[12:24] + frame[:12] + frame[24:] for frame in found["sent"][1:]]
    assert found["accounting"] == [19, 10, 19]


# --- errors -------------------------------------------------------------------------------------

WRONG = [
    (Broken("error"), "IndexError: list index out of range (applications.py:"),
    (Broken("error", "on_datagrams"), "IndexError: list index out of range (applications.py:"),
    (Broken("error", "timer"), "IndexError: list index out of range (applications.py:"),
    (Broken("error", "result"), "IndexError: list index out of range (applications.py:"),
    (Broken("port taken"), "UDP port 5000: already in use; choose another port (applications.py:"),
    (Broken("no port"), "UDP port 70000: expected 1 to 65535 (applications.py:"),
    (
        Broken("no host"),
        "address 10.9.9.9: no host of the network has this address (applications.py:",
    ),
    (Broken("no port to send to"), "UDP port 0: expected 1 to 65535 (applications.py:"),
    (Broken("no dscp"), "dscp 64: expected 0 to 63 (applications.py:"),
    (Broken("no ecn"), "ecn -1: expected 0 to 3 (applications.py:"),
    (Broken("no ttl"), "ttl 0: expected 1 to 255 (applications.py:"),
    (Broken("short message"), "ICMP message of 7 bytes: expected 8 to 1480 (applications.py:"),
    (
        Broken("no host for ICMP"),
        "address 10.9.9.9: no host of the network has this address (applications.py:",
    ),
    (Broken("no ttl for ICMP"), "ttl 256: expected 1 to 255 (applications.py:"),
    (Broken("long payload"), "payload of 1473 bytes: expected at most 1472 (applications.py:"),
    (Broken("short frame"), "frame of 13 bytes: expected 14 to 1514 (applications.py:"),
    (
        Broken("not to be copied"),
        "its result: cannot be pickled for another process: cannot pickle",
    ),
    (Broken("not to be copied", "before"), "cannot be pickled for another process: cannot pickle"),
]


@pytest.mark.parametrize(("application", "words"), WRONG)
def test_what_goes_wrong_in_an_application_is_told_in_one_line(
    tmp_path: Path, application: Application, words: str
) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            net.run_application("h1", Sender([MS], net.host("h2").IP(), 5000))
            net.run_application("h2", application)
            await run.clock.sleep_until(run.clock.now_ns() + 100 * MS)

    with pytest.raises(TestbedError) as caught:
        virtually(tmp_path, main)
    assert str(caught.value).startswith("application Broken at h2")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


FAIL = """
with Network(Pair(), run, program=WIRE) as net:
    net.run_application("h2", Broken({}))
    net.run_application("h1", Sender([0], net.host("h2").IP(), 5000))
    await until_left(net, run, "s2", "h2", 1)
    {}
return Report([], [Check("c", 0, 0)])
"""


DEAD = """
    with suppress(TestbedError):
        while True:
            net.backend.check_alive()
            await run.clock.sleep_until(run.clock.now_ns() + MS)
    raise ValueError("of a dead host")
"""


@pytest.mark.parametrize(
    ("how", "then", "words"),
    [
        ("'error', 'on_datagrams'", "", "IndexError: list index out of range (applications.py:"),
        (
            "'port taken'",
            "",
            "UDP port 5000: already in use; choose another port (applications.py:",
        ),
        ("'killed', 'timer'", DEAD, "ended by SIGKILL: no out"),
    ],
)
def test_so_it_is_in_real_time(
    start_experiment: StartExperiment, how: str, then: str, words: str
) -> None:
    process = start_experiment(FAIL.format(how, then), head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    assert errors.startswith(f"example: error: application Broken at h2: {words}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_the_traceback_of_an_application_can_be_printed(
    start_experiment: StartExperiment, time: str
) -> None:
    body = FAIL.format("'error'", "")
    process = start_experiment(body, "--time", time, "--traceback", head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    assert '"error": lambda: self.host.receivers[9]' in errors
    assert errors.splitlines()[-1].startswith("example: error: application Broken at h2: Index")


SCRIPT = """
from telemark.session import cli
from telemark.apps.application import Application
from telemark.results.report import Check, Report

class Found:
    text = "found"

class Own(Application):
    def start(self, host):
        pass
    def result(self):
        return Found()

async def experiment(options, run):
    with Network(Pair(), run, program=WIRE) as net:
        own = net.run_application("h1", Own())
    return Report([], [Check("c", own.result.text == "found", True)])

"""


@pytest.mark.parametrize("is_guarded", [True, False])
def test_its_class_may_be_in_the_experiments_script(tmp_path: Path, is_guarded: bool) -> None:
    script = tmp_path / "example.py"
    guard = 'if __name__ == "__main__": ' if is_guarded else ""
    script.write_text(f"{HEAD}{SCRIPT}{guard}cli.main(__file__, None, experiment)\n")
    command = [sys.executable, str(script), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == (0 if is_guarded else 2), done.stdout + done.stderr
    if not is_guarded:
        assert done.stderr == (
            "example: error: application Own at h1: example.py: cli.main() runs when another "
            'process imports the script; call it below `if __name__ == "__main__":` '
            f"(example.py:{len(script.read_text().splitlines())})\n"
        )


LARGE = """
with Network(Pair(), run, program=WIRE) as net:
    application = net.run_application("h1", Large(1_000_000))
return Report([], [Check("bytes", application.result, 1_000_000)])
"""


def test_an_application_may_have_more_data_than_a_pipe_holds(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    metrics_of(start_experiment, tmp_path, LARGE, "real")
