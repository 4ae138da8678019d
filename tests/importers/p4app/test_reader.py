"""p4app.json: its parts and the resulting described network."""

import json
import shutil
from pathlib import Path
from typing import Any

import exercise
import pytest

from importers.cli import read
from importers.network import DescribedNetwork, Task
from importers.switch_cli.session import CommandScript, ProgramAlone
from telemark.errors import TestbedError


def described() -> dict[str, Any]:
    """Return h1 - s1 - s2 - h2, with addresses by a strategy."""
    return {
        "p4_src": "gate.p4",
        "cli": True,
        "topology": {
            "assignment_strategy": "l3",
            "links": [["h1", "s1"], ["s1", "s2"], ["h2", "s2"]],
            "hosts": {"h1": {}, "h2": {}},
            "switches": {"s1": {"cli_input": "s1-commands.txt"}, "s2": {}},
        },
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    shutil.copy(exercise.GATE, folder)
    (folder / "s1-commands.txt").write_text("table_set_default routes drop\n")
    path = folder / "p4app.json"
    path.write_text(json.dumps(content))
    return path


def network(folder: Path, content: dict[str, Any], program: Path | None = None) -> DescribedNetwork:
    return read(write(folder, content), program)


def test_a_network_of_p4_utils(tmp_path: Path) -> None:
    content = described()
    content["topology"]["switches"]["s2"] = {"cpu_port": True, "priority_queues_num": 8}
    found = network(tmp_path, content)
    h1, h2 = found.hosts
    assert (h1.name, str(h1.address), h1.mac) == ("h1", "10.1.1.2/24", "00:00:0a:01:01:02")
    assert (h1.interface, h1.gateway) == ("h1-eth0", "10.1.1.1")
    assert h1.neighbours == {"10.1.1.1": "00:01:0a:01:01:02"}
    assert h2.neighbours == {"10.2.2.1": "00:01:0a:02:02:02"}
    s1, s2 = found.switches
    assert (s1.device_id, s1.grpc_port, s1.populations) == (
        1, 9559, [CommandScript(tmp_path / "s1-commands.txt")],
    )  # fmt: skip
    assert (s2.device_id, s2.grpc_port, s2.populations) == (2, 9560, [ProgramAlone()])
    assert s2.options == ["--cpu-port", "3", "--priority-queues", "8"]
    assert [(each.port1, each.port2) for each in found.links] == [(None, 1), (2, 2), (None, 1)]
    assert {switch.program for switch in found.switches} == {tmp_path / "gate.p4"}
    assert found.messages == []


def test_hosts_of_one_network_know_each_other(tmp_path: Path) -> None:
    content = described()
    content["topology"]["assignment_strategy"] = "l2"
    h1, h2 = network(tmp_path, content).hosts
    assert h1.neighbours == {"10.0.0.2": h2.mac}
    content["topology"]["default"] = {"auto_arp_tables": False}
    h1, h2 = network(tmp_path, content).hosts
    assert h1.neighbours == h2.neighbours == {}


def test_hosts_of_mixed_networks_know_their_gateway(tmp_path: Path) -> None:
    content = described()
    content["topology"]["assignment_strategy"] = "mixed"
    h1, h2 = network(tmp_path, content).hosts
    assert h1.neighbours == {"10.0.1.254": "00:01:0a:00:01:01"}
    assert h2.neighbours == {"10.0.2.254": "00:01:0a:00:02:02"}


def test_addresses_may_be_given(tmp_path: Path) -> None:
    content = described()
    topology = content["topology"]
    topology["assignment_strategy"] = "manual"
    topology["hosts"]["h1"] = {"defaultRoute": "via 10.7.0.9"}
    properties = {"params1": {"ip": "10.7.0.1/16"}, "port2": 5, "sw_ip2": "10.7.0.9/16"}
    topology["links"][0] = ["h1", "s1", {**properties, "addr2": "0A:00:00:00:00:09"}]
    found = network(tmp_path, content)
    h1, h2 = found.hosts
    assert (str(h1.address), h1.gateway) == ("10.7.0.1/16", "10.7.0.9")
    assert h1.neighbours == {"10.7.0.9": "0a:00:00:00:00:09"}
    assert (str(h2.address), h2.gateway) == ("10.0.0.1/8", None)
    assert found.links[0].port2 == 5
    topology["default"] = {"auto_gw_arp": False}
    assert network(tmp_path, content).hosts[0].neighbours == {}


def test_units_of_links_are_converted_and_reported(tmp_path: Path) -> None:
    content = described()
    content["topology"]["default"] = {"bw": 10, "delay": 5, "weight": 3}
    content["topology"]["links"][1].append({"loss": 0.5, "max_queue_size": 20, "delay": "7us"})
    found = network(tmp_path, content)
    assert found.links[0].properties1 == {"rate_bps": 10_000_000, "delay_us": 5000}
    assert found.links[1].properties1 == found.links[1].properties2 == {
        "rate_bps": 10_000_000, "delay_us": 7, "loss_probability": 0.005, "queue_packets": 20,
    }  # fmt: skip
    assert found.messages[:2] == [
        "link h1 - s1: rate_bps=10000000, delay_us=5000 (not for traffic from h1)",
        "link s1 - s2: rate_bps=10000000, delay_us=7, loss_probability=0.005, queue_packets=20",
    ]


def test_scripts_and_tasks(tmp_path: Path) -> None:
    content = described()
    content["exec_scripts"] = [{"cmd": "./controller.py populate", "reboot_run": True}]
    content["tasks_file"] = "tasks.txt"
    tmp_path.joinpath("tasks.txt").write_text(
        '# node start duration command\nh1 1.5 0 "ping -c 1 10.2.2.2"\n\n'
        'h2 0 5 "iperf -s"\nh2 2 0 recv_udp_flow 5001\n'
        "h1 0 0 flow 1 --rate 10M --mod traffic\n"
    )
    found = network(tmp_path, content)
    assert found.scripts == ["./controller.py populate"]
    h1, h2 = found.hosts
    call = "import traffic as m; m.flow(*['1'], **{'rate': '10M'})"
    quoted = call.replace("'", "'\"'\"'")
    assert h1.tasks == [
        Task(1.5, "ping -c 1 10.2.2.2"),
        Task(0, f"python3 -c '{quoted}'"),
    ]
    assert h2.tasks[0] == Task(0, "timeout -k 1 5 iperf -s")
    assert "p4utils.utils.traffic_utils as m; m.recv_udp_flow(" in h2.tasks[1].command


def test_another_program_takes_the_place_of_the_one_of_its_name(tmp_path: Path) -> None:
    other = tmp_path / "solution" / "gate.p4"
    other.parent.mkdir()
    shutil.copy(exercise.GATE, other)
    shutil.copy(exercise.GATE, tmp_path / "second.p4")
    content = described()
    content["topology"]["switches"]["s2"]["p4_src"] = "second.p4"
    programs = [switch.program for switch in network(tmp_path, content, other).switches]
    assert programs == [other, tmp_path / "second.p4"]


def test_unsupported_keys_are_reported_once(tmp_path: Path) -> None:
    content = described()
    content["mininet_module"] = {}
    for host in content["topology"]["hosts"].values():
        host["dhcp"] = True
    messages = network(tmp_path, content).messages
    assert messages == ["not supported: mininet_module", "not supported: topology.hosts.h1.dhcp"]


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("topology.assignment_strategy", "l4", 'topology.assignment_strategy: "l4": expected one '
         "of l2, mixed, l3, manual"),
        ("topology.links", [["h1", "s9"]], r'links\[0\]\[1\]: "s9": expected one of h1, h2, s1'),
        ("topology.links", [["h1"]], r"links\[0\]: .*expected two nodes"),
        ("topology.links", [["h1", "s1"]], r"topology.hosts.h2: .*expected a link to this host"),
        ("topology.switches", {}, "topology: .*expected a switch in its switches"),
        ("topology.switches.h1", {}, "topology.switches: .*expected names of switches, but h1"),
        ("topology.hosts.h²", {}, "topology.hosts: .*expected a name of up to 64 letters"),
        ("topology.switches.s1.cpu_port", 3, "s1.cpu_port: 3: expected true or false"),
        ("topology.switches.s1.grpc_port", 0, "s1.grpc_port: 0: expected a whole number from 1"),
        ("topology.default", {"auto_gw_arp": "false"}, '"false": expected true or false'),
        ("topology.default", {"max_queue_size": float("inf")}, "size: Infinity: expected"),
        ("topology.default", {"bw": 1e-9}, r"links\[0\]: bw 1e-09: expected Mbit/s"),
        ("topology.switches.s1.cli_input", "no.txt", 's1.cli_input: "no.txt": expected a script'),
        ("p4_src", "n" * 5000, "p4_src: .*expected a P4 program in "),
        ("p4_src", "no.p4", 'p4_src: "no.p4": expected a P4 program in '),
        ("p4_src", None, "topology.switches.s1: .*expected a p4_src in it, or a p4_src for all"),
        ("topology.hosts.h1.defaultRoute", "via it", 'expected a gateway such as "via 10.0.1.1"'),
        ("topology.default", {"bw": "fast"}, 'default.bw: "fast": expected a number'),
        ("topology.default", {"loss": 101}, r"links\[0\]: loss 101: expected a percentage"),
        ("topology.default", {"delay": "5 days"}, r"links\[0\]: delay '5 days': expected a string "
         "with a unit"),
        ("tasks_file", "tasks.txt", 'tasks.txt:1: expected HOST START_S DURATION_S "COMMAND"'),
        ("tasks_file", "others.txt", "tasks_file: .*there is no host h9"),
        ("exec_scripts", [{}], r"exec_scripts\[0\]: .*expected an object with 'cmd'"),
    ],
)  # fmt: skip
def test_errors_are_reported_with_their_place(
    tmp_path: Path, place: str, value: Any, why: str
) -> None:
    content = described()
    *path, last = place.split(".")
    part = content
    for key in path:
        part = part[key]
    part[last] = value
    (tmp_path / "tasks.txt").write_text("h1 soon 0 ping\n")
    (tmp_path / "others.txt").write_text("h9 0 0 ls\n")
    with pytest.raises(TestbedError, match=why) as raised:
        network(tmp_path, content)
    assert "\n" not in str(raised.value)
