"""topology.json of p4lang/tutorials: the resulting network, and errors of one line."""

import re
from pathlib import Path
from typing import Any

import exercise
import pytest

from importers.cli import read
from importers.network import DescribedNetwork, Link
from importers.programs import choose_programs
from importers.switch_cli.session import CommandScript
from importers.tutorials.runtime import RuntimeFile
from telemark.errors import TestbedError
from telemark.json_input import Document


def changed(folder: Path, **parts: Any) -> DescribedNetwork:
    """Return the network of the exercise with other parts."""
    return read(exercise.write(folder, exercise.topology() | parts, {}, {}), None)


def test_switches_are_numbered_as_their_controllers_expect(tmp_path: Path) -> None:
    described = read(exercise.whole(tmp_path / "x"), None)
    assert [(s.name, s.device_id, s.grpc_port) for s in described.switches] == [
        ("s1", 0, 50051), ("s2", 1, 50052),
    ]  # fmt: skip
    assert described.folder == tmp_path / "x"
    assert {s.program for s in described.switches} == {tmp_path / "x" / "gate.p4"}


def test_without_files_the_exercise_is_where_its_program_is(tmp_path: Path) -> None:
    described = changed(tmp_path, switches={"s1": {}, "s2": {}})
    assert described.folder == tmp_path
    (tmp_path / "gate.p4").rename(tmp_path / "net" / "gate.p4")
    assert read(tmp_path / "net" / "topology.json", None).folder == tmp_path / "net"


def test_gateway_and_arp_commands_are_settings_and_others_stay(tmp_path: Path) -> None:
    hosts = exercise.topology()["hosts"]
    hosts["h2"]["commands"] = [
        "ip route add default via 10.0.2.20",
        "sysctl -w net.ipv4.x=1",
        "ip neigh add 10.0.2.20 lladdr 08:00:00:00:02:00 dev eth0",
        "route add default gw nowhere",
        "arp -i eth1 -s 10.0.2.9 08:00:00:00:02:00",
        "ip route add 10.0.2.0/24 dev eth0",
        "ip route add 10.9.0.0/16 dev eth0",
    ]
    h1, h2 = changed(tmp_path, hosts=hosts).hosts
    assert (h1.gateway, h1.neighbours, h1.commands) == (
        "10.0.1.10", {"10.0.1.10": "08:00:00:00:01:00"}, [],
    )  # fmt: skip
    assert (h2.gateway, h2.neighbours) == ("10.0.2.20", {"10.0.2.20": "08:00:00:00:02:00"})
    assert h2.commands == ["sysctl -w net.ipv4.x=1", "route add default gw nowhere",
                           "arp -i eth1 -s 10.0.2.9 08:00:00:00:02:00",
                           "ip route add 10.9.0.0/16 dev eth0"]  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "properties"),
    [
        ([], {}),
        (["0", 0.5], {"rate_bps": 500_000}),
        ([5], {"delay_us": 5000}),
        (["2.5ms"], {"delay_us": 2500}),
        (["70us", None], {"delay_us": 70}),
        (["1s", 100], {"delay_us": 1_000_000, "rate_bps": 100_000_000}),
        (["30"], {"delay_us": 30}),
        ([None, 1], {"rate_bps": 1_000_000}),
    ],
)
def test_units_of_links(extra: list[Any], properties: dict[str, Any], tmp_path: Path) -> None:
    links = changed(tmp_path, links=[["h1", "s1-p3"], ["s1-p7", "s2-p5", *extra]]).links
    assert links == [Link("h1", "s1", None, 3), Link("s1", "s2", 7, 5, properties, properties)]


def test_traffic_from_hosts_is_reported_to_have_no_properties(tmp_path: Path) -> None:
    messages = changed(tmp_path, links=[["h1", "s1-p3", 5]]).messages
    assert messages == ["link h1 - s1: latency 5 ms: delay_us=5000 (not for traffic from h1)"]


def test_options_of_switches(tmp_path: Path) -> None:
    switches = {"s1": {"cpu_port": "510", "priority_queues": 4}, "s2": {}}
    described = changed(tmp_path, switches=switches)
    assert described.switches[0].options == ["--cpu-port", "510", "--priority-queues", "4"]


def test_commands_of_simple_switch_cli_follow_the_runtime_file(tmp_path: Path) -> None:
    both = {"runtime_json": "net/s1.json", "cli_input": "net/s1-commands.txt"}
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "s1-commands.txt").write_text("mirroring_add 1 2\n")
    s1, s2 = changed(tmp_path, switches={"s1": both, "s2": {}}).switches
    assert s1.populations == [
        RuntimeFile(Document.load(tmp_path / "net" / "s1.json")),
        CommandScript(tmp_path / "net" / "s1-commands.txt"),
    ]
    assert s2.populations == []


def host(**parts: Any) -> dict[str, Any]:
    return {"hosts": {"h1": exercise.host(1) | parts}, "links": []}


@pytest.mark.parametrize(
    ("parts", "messages"),
    [
        ({"hosts": None}, "top level: {...}: expected an object with 'hosts'"),
        ({"hosts": []}, "hosts: []: expected an object, {...}"),
        ({"hosts": {"h;id": {}}}, "hosts: {...}: expected a name of up to 64 letters, digits, _, "
         '. and - that begins with a letter or digit, got "h;id"'),
        ({"switches": {"../s": {}}}, 'switches: {...}: expected a name of up to 64{...}"../s"'),
        ({"switches": {"h1": {}}}, "switches: {...}: expected names of switches, but h1 is "),
        ({"switches": {"s1": {"runtime_json": "n" * 5000}}}, "switches.s1.runtime_json: {...}: "
         "expected a file below"),
        ({"switches": {"s1": {"cpu_port": "9" * 5000}}, "links": []}, "switches.s1.cpu_port: "),
        ({"switches": {f"s{number}": {} for number in range(10_001)}},
         "switches: {...}: expected at most 10000 nodes, got 10001"),
        ({"switches": {}}, "switches: {}: expected a switch in it"),
        ({"switches": {"s1": {"runtime_json": "net/s9.json"}}},
         'switches.s1.runtime_json: "net/s9.json": expected a file below {...}/x/net or {...}/x'),
        ({"switches": {"s1": {"cpu_port": 511}}, "links": []},
         "switches.s1.cpu_port: 511: expected a whole number from 0 to 510"),
        ({"switches": {"s1": {"priority_queues": 0}}, "links": []},
         "switches.s1.priority_queues: 0: expected a whole number from 1 to 8"),
        ({"switches": {"s1": {"cli_input": "s9.txt"}}},
         'switches.s1.cli_input: "s9.txt": expected a file below {...}/x/net or {...}/x'),
        (host(ip="10.0.1.1"), 'hosts.h1.ip: "10.0.1.1": expected an IPv4 address with its prefix'),
        (host(ip="10.0.1.300/24"), 'hosts.h1.ip: "10.0.1.300/24": expected an IPv4 address'),
        (host(mac="08:00"), 'hosts.h1.mac: "08:00": expected a MAC address such as'),
        (host(mac=None), "hosts.h1: {...}: expected an object with 'mac'"),
        (host(commands="x"), 'hosts.h1.commands: "x": expected a list'),
        ({"links": [["h1"]]}, 'links[0]: ["h1"]: expected two ends'),
        ({"links": [["h1", "s1"]]}, 'links[0][1]: "s1": expected a host, or a switch with its'),
        ({"links": [["h1", "s1-p511"]]}, 'links[0][1]: "s1-p511": expected'),
        ({"links": [["h1", "s1-p" + "9" * 5000]]}, "links[0][1]: "),
        ({"links": [["h1", "s9-p1"]]}, 'links[0][1]: "s9-p1": expected'),
        ({"links": [["h1", "s1-p3", "soon"]]}, 'links[0][2]: "soon": expected a number of ms'),
        ({"links": [["h1", "s1-p3", 0, True]]}, "links[0][3]: true: expected a number from 0"),
        ({"links": [["h1", "s1-p3", 0, -1]]}, "links[0][3]: -1: expected a number from 0"),
        ({"links": [["h1", "s1-p3", 0, 1e308]]}, "links[0][3]: 1e+308: expected a number from 0"),
        ({"links": [["h1", "s1-p3", 0, 1e-9]]}, "links[0]: bw 1e-09: expected Mbit/s, e.g. 100"),
    ],
)  # fmt: skip
def test_one_line_for_what_is_wrong(parts: dict[str, Any], messages: str, tmp_path: Path) -> None:
    with pytest.raises(TestbedError) as caught:
        changed(tmp_path / "x", **parts)
    place = re.escape(f"{tmp_path}/x/net/topology.json: ")
    assert re.match(place + ".*".join(map(re.escape, messages.split("{...}"))), str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        (b'{"hosts": }', ":1:11: not JSON: Expecting value"),
        (b"\xff\xfe", ": not JSON: not UTF-8 text"),
        (b"[" * 100_000, ": nested too deeply, or a number is too long"),
        (b"9" * 5000, ": nested too deeply, or a number is too long"),
    ],
)
def test_what_is_no_json(content: bytes, messages: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_bytes(content)
    with pytest.raises(TestbedError, match=f"^{path}{messages}"):
        read(path, None)
    with pytest.raises(TestbedError, match=f"^cannot read {tmp_path}/none: No such file"):
        read(tmp_path / "none", None)
    with pytest.raises(TestbedError, match=f"^{tmp_path}: is a folder; pass a file in it"):
        read(tmp_path, None)


@pytest.mark.parametrize(
    ("files", "stems", "given", "chosen"),
    [
        (["a"], {"s1": "a"}, None, {"s1": "a.p4"}),
        (["a"], {"s1": None, "s2": "a"}, None, {"s1": "a.p4", "s2": "a.p4"}),
        (["a", "b"], {"s1": "a", "s2": None}, None, {"s1": "a.p4", "s2": "b.p4"}),
        (["a"], {"s1": "a"}, "solution/a.p4", {"s1": "solution/a.p4"}),
        (["a"], {"s1": None}, "solution/c.p4", {"s1": "solution/c.p4"}),
        (["a", "b"], {"s1": "a", "s2": "b"}, "solution/b.p4",
         {"s1": "a.p4", "s2": "solution/b.p4"}),
        (["a", "b"], {"s1": None}, "solution/a.p4", {"s1": "solution/a.p4"}),
        ([], {"s1": "a"}, "solution/a.p4", {"s1": "solution/a.p4"}),
    ],
)  # fmt: skip
def test_which_program_a_switch_runs(
    files: list[str], stems: dict[str, str | None], given: str | None, chosen: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "solution").mkdir()
    for path in [*(f"{name}.p4" for name in files), *([given] if given else [])]:
        (tmp_path / path).touch()
    found = choose_programs(tmp_path, stems, Path(given) if given else None)
    assert found == {switch: tmp_path / path for switch, path in chosen.items()}


@pytest.mark.parametrize(
    ("files", "stems", "given", "messages"),
    [
        ([], {"s1": None}, None, "switch s1: no P4 program in .*; select a program with --p4"),
        (["a", "b"], {"s1": None}, None, "switch s1: several programs in .*a.p4, b.p4"),
        (["a"], {"s1": "b"}, None, "switch s1: no program .*/b.p4; create it, or select a program"),
        (["a"], {"s1": "a"}, "none.p4", "--p4: no file /.*none.p4 or .*/none.p4"),
        (["a", "b"], {"s1": "a", "s2": "b"}, "c.p4",
         "--p4 c.p4: the switches run a, b; use a file with that name"),
    ],
)  # fmt: skip
def test_programs_that_cannot_be_found(
    files: list[str], stems: dict[str, str | None], given: str | None, messages: str, tmp_path: Path
) -> None:
    for name in [*files, "c"] if given == "c.p4" else files:
        (tmp_path / f"{name}.p4").touch()
    with pytest.raises(TestbedError, match=f"^{messages}"):
        choose_programs(tmp_path, stems, Path(given) if given else None)
