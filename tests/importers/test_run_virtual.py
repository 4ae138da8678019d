"""`telemark run` in virtual time: hosts are reachable as described."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import exercise
import pytest

from telemark.cli import main

Telemark = Callable[..., tuple[int, str, str]]


@pytest.fixture
def telemark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Telemark]:
    """Run a description with a command script; return status, output, errors."""
    before = [(number, signal.getsignal(number)) for number in
              (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]  # fmt: skip

    def run(path: Path, commands: str, *options: str) -> tuple[int, str, str]:
        script = tmp_path / "script"
        script.write_text(commands)
        status = main(["run", str(path), "--time", "virtual", "--commands", str(script), *options])
        return status, *capfd.readouterr()

    yield run
    for number, handler in before:
        signal.signal(number, handler)


def test_hosts_behind_gateways_reach_each_other(tmp_path: Path, telemark: Telemark) -> None:
    path = exercise.whole(tmp_path / "x")
    status, output, errors = telemark(path, "# a comment\n\nh1 ping -c 2 h2\npingall\n")
    assert (status, errors) == (0, "")
    assert "s1: 2 entries of s1.json" in output
    # each of two switches decremented it
    assert "10.0.2.2: icmp_seq=2 ttl=62 time=0.000 ms" in output
    assert "2 packets transmitted, 2 received, 0% packet loss" in output
    assert "h2 -> h1" in output
    assert "0% dropped (2/2 received)" in output


def test_a_host_without_a_route_sends_nothing(tmp_path: Path, telemark: Telemark) -> None:
    described = exercise.topology()
    described["hosts"]["h1"]["commands"] = []
    both = exercise.runtime({"h1": 3, "h2": 7}), exercise.runtime({"h1": 5, "h2": 2})
    path = exercise.write(tmp_path / "x", described, *both)
    _, output, _ = telemark(path, "h1 ping -c 1 h2\npingall\n")
    assert "ping: connect: Network is unreachable" in output
    assert "100% dropped (0/2 received)" in output


def test_commands_of_simple_switch_cli_fill_what_a_runtime_file_does_not(
    tmp_path: Path, telemark: Telemark
) -> None:
    described = exercise.topology()
    described["switches"]["s1"] |= {"cli_input": "net/s1-commands.txt"}
    s1, s2 = exercise.runtime({"h1": 3, "h2": 7}), exercise.runtime({"h1": 5, "h2": 2})
    s1["table_entries"] = s1["table_entries"][:1]
    path = exercise.write(tmp_path / "x", described, s1, s2)
    path.with_name("s1-commands.txt").write_text(
        f"table_add routes forward 10.0.2.0/24 => {exercise.MACS['h2']} 7\n"
    )
    _, output, errors = telemark(path, "pingall\n")
    assert (errors, "0% dropped (2/2 received)" in output) == ("", True)


def test_neighbours_are_found_by_arp_through_a_flood(tmp_path: Path, telemark: Telemark) -> None:
    described = exercise.topology()
    for number, host in enumerate(described["hosts"].values(), start=1):
        host["ip"] = f"10.0.0.{number}/24"
        host["commands"] = ["ip route add 10.0.0.0/24 dev eth0"]
    described["switches"] = {"s1": {"runtime_json": "net/s1.json"}}
    described["links"] = [["h1", "s1-p3"], ["h2", "s1-p7"]]
    runtime = {
        "multicast_group_entries": [
            {"multicast_group_id": 1, "replicas": [{"egress_port": 3}, {"egress_port": 7}]}
        ],
        "table_entries": [
            {"table": "GateIngress.routes", "default_action": True,
             "action_name": "GateIngress.flood", "action_params": {}}
        ],
    }  # fmt: skip
    path = exercise.write(tmp_path / "x", described, runtime)
    _, output, _ = telemark(path, "pingall\n")
    assert "0% dropped (2/2 received)" in output


def test_links_take_the_time_that_they_are_given(tmp_path: Path, telemark: Telemark) -> None:
    described = exercise.topology()
    described["links"][1] += [5, 1]  # 5 ms, 1 Mbit/s
    both = exercise.runtime({"h1": 3, "h2": 7}), exercise.runtime({"h1": 5, "h2": 2})
    path = exercise.write(tmp_path / "x", described, *both)
    _, output, _ = telemark(path, "h1 ping -c 1 h2\n")
    messages = "link s1 - s2: latency 5 ms: delay_us=5000, bandwidth 1 Mbit/s: rate_bps=1000000"
    assert messages in output
    # 98 B at 1 Mbit/s take 0.784 ms, plus 5 ms, in both directions
    assert "time=11.568 ms" in output


def test_commands_unsupported_in_virtual_time_are_reported(
    tmp_path: Path, telemark: Telemark
) -> None:
    described = exercise.topology()
    described["hosts"]["h1"]["commands"].append("touch here")
    described["switches"]["s2"] = {"cpu_port": "500"}
    path = exercise.write(tmp_path / "x", described, exercise.runtime({"h1": 3, "h2": 7}))
    status, output, _ = telemark(path, "h1 sleep 0.5\n")
    assert status == 0
    assert "h1: not in virtual time: touch here" in output
    assert "s2: no table entries; waiting for a controller" in output


@pytest.mark.parametrize(
    "line",
    ["h1 ping h2", "h1 ping -c 0 h2", "h1 ping -c 1 h9", "h9 ping -c 1 h1", "h1 ./send.py",
     "iperf", "h1 ping -f -c 1 h2", "sh sleep -1", "sh sleep 1000001", "h1 ping -c 1000001 h2"],
)  # fmt: skip
def test_commands_that_need_kernels_are_refused_before_any_is_done(
    line: str, tmp_path: Path, telemark: Telemark
) -> None:
    status, output, errors = telemark(exercise.whole(tmp_path / "x"), f"pingall\n{line}\n")
    assert status == 2
    assert errors == (
        f"telemark: error: {tmp_path / 'script'}: {line}: not available in virtual time; use "
        "pingall or HOST ping -c COUNT HOST or HOST sleep SECONDS, both up to 1,000,000\n"
    )
    assert "Results" not in output


def test_captures_are_kept_where_one_says(tmp_path: Path, telemark: Telemark) -> None:
    path = exercise.whole(tmp_path / "x")
    _, output, _ = telemark(path, "pingall\n", "--keep", "--out", str(tmp_path / "kept"))
    assert f"Captures and logs: {tmp_path}/kept/run" in output.replace("\n", "")
    assert (tmp_path / "kept/run/network/s1-eth3_in.pcap").stat().st_size > 24


def test_a_description_may_lie_in_any_folder(tmp_path: Path, telemark: Telemark) -> None:
    # a folder of a run has the same name
    assert telemark(exercise.whole(tmp_path / "tmp"), "")[0] == 0


def test_a_host_has_one_link(tmp_path: Path, telemark: Telemark) -> None:
    described = exercise.topology()
    described["links"].append(["h1", "s1-p9"])
    path = exercise.write(tmp_path / "x", described, {}, {})
    assert telemark(path, "")[::2] == (2, "telemark: error: host h1 has 2 links: expected one\n")


def test_without_commands_it_needs_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(exercise.whole(tmp_path / "x"))
    assert main(["run", path, "--time", "virtual"]) == 2
    assert capsys.readouterr().err == (
        "telemark: error: --time virtual: expected --commands SCRIPT\n"
    )


def broken(part: str, value: Any) -> dict[str, Any]:
    content = exercise.runtime({"h1": 3, "h2": 7})
    entry = content["table_entries"][1]
    if part in entry:
        entry[part] = value
    else:
        content[part] = value
    return content


@pytest.mark.parametrize(
    ("part", "value", "messages"),
    [
        ("table", "GateIngress.rotues", "table_entries[1]: {...}: expected names in the program: "),
        ("match", {"hdr.ipv4.dst": ["10.0.2.0", 33]}, "invalid LPM value for bitwidth 32"),
        ("match", {"hdr.ipv4.dst": [1, 2, 3]},
         "table_entries[1].match.hdr.ipv4.dst: [1, 2, 3]: expected one value, or a pair"),
        ("match", {"hdr.ipv4.dst": {}}, "match.hdr.ipv4.dst: {}: expected a number or an address"),
        ("action_params", {"mac": 1, "port": 999}, "value for bitwidth 9"),
        ("action_name", 7, "table_entries[1].action_name: 7: expected a string"),
        ("table_entries", 7, "s1.json: table_entries: 7: expected a list"),
        ("meter_entries", [], "expected only the keys target, p4info, bmv2_json,"),
        ("multicast_group_entries", [{"multicast_group_id": 1}],
         "multicast_group_entries[0]: {\"multicast_group_id\": 1}: expected an object with "
         "'replicas'"),
        ("clone_session_entries", [{"clone_session_id": 99999, "replicas": []}],
         "clone_session_entries[0].clone_session_id: 99999: expected a whole number from 0 to"),
        ("match", {"hdr.ipv4.dst": ["10.0.1.0", 24]}, "ALREADY_EXISTS"),
    ],
)  # fmt: skip
def test_a_wrong_runtime_file_gets_one_line(
    part: str, value: object, messages: str, tmp_path: Path, telemark: Telemark
) -> None:
    path = exercise.write(tmp_path / "x", exercise.topology(), broken(part, value), {})
    status, _, errors = telemark(path, "pingall\n")
    assert status == 2
    assert errors.startswith(f"telemark: error: {tmp_path}/x/net/s1.json: ")
    assert len(errors.splitlines()) == 1
    assert messages.partition("{...}")[0] in errors
    assert messages.partition("{...}")[2] in errors
