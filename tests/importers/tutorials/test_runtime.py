"""Entries in a switch after sX-runtime.json was loaded, for every form of a match."""

from pathlib import Path
from typing import Any

import exercise
import finsy as fy
import pytest
from virtual_networks import virtually

from controllers.connection import connection
from importers.cli import read
from importers.network import DescribedTopo
from importers.run import fill
from telemark.network import Network
from telemark.session.run import Run

GATE = {"table": "GateIngress.gate", "priority": 9, "action_name": "GateIngress.mirror",
        "action_params": {}}  # fmt: skip
RUNTIME = {
    "table_entries": [
        GATE | {"match": {"std.ingress_port": [3], "hdr.ipv4.src": ["10.0.1.0", "255.255.255.0"],
                          "hdr.ipv4.ttl": [1, 63], "hdr.ipv4.protocol": 1}},
        GATE | {"match": {"std.ingress_port": 7}, "priority": 8, "action_name": "NoAction"},
        {"table": "GateIngress.routes", "match": {"hdr.ipv4.dst": ["10.0.1.77", 24]},
         "action_name": "GateIngress.forward",
         "action_params": {"mac": "08:00:00:00:01:11", "port": [3]}},
        {"table": "GateIngress.routes", "default_action": True,
         "action_name": "GateIngress.flood"},
    ],
    "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 3},
                                 {"egress_port": 7, "instance": 2}]}],
    "clone_session_entries": [{"clone_session_id": 7, "packet_length_bytes": 100,
                               "replicas": [{"egress_port": 7, "instance": 1}]}],
}  # fmt: skip


async def held(path: Path, run: Run) -> list[Any]:
    """Write the entries of the description to s1; return the entries that s1 then has."""
    described = read(path, None)
    programs = {switch.name: switch.program for switch in described.switches}
    with Network(DescribedTopo(described), run, program=programs, capture=False) as net:
        await fill(net, described.switches[0], run)
        async with connection(net, "s1") as switch:
            wanted = [
                fy.P4TableEntry("GateIngress.gate"),
                fy.P4TableEntry("GateIngress.routes"),
                fy.P4TableEntry("GateIngress.routes", is_default_action=True),
                fy.P4MulticastGroupEntry(),
                fy.P4CloneSessionEntry(),
            ]
            return [entity async for entity in switch.read(wanted)]


def test_every_form_of_an_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exercise.write(tmp_path / "x", exercise.topology(), RUNTIME, {})
    entities = virtually(tmp_path / "run", lambda run: held(path, run))
    assert "s1: 6 entries of s1.json" in capsys.readouterr().out
    entries = [each for each in entities if isinstance(each, fy.P4TableEntry)]
    assert [(e.priority, dict(e.match or {}), e.action and e.action.name, e.is_default_action)
            for e in entries] == [
        (9, {"ingress_port": 3, "src": (0x0A000100, 0xFFFFFF00),
             "ttl": (1, 63), "protocol": 1}, "mirror", False),
        (8, {"ingress_port": 7}, "NoAction", False),
        (0, {"dst": (0x0A000100, 24)}, "forward", False),
        (0, {}, "flood", True),
    ]  # fmt: skip
    assert entries[2].action is not None
    assert entries[2].action.args == {"mac": 0x080000000111, "port": 3}
    group, session = entities[-2:]
    assert group.replicas_str() == "3 7#2"
    assert (session.session_id, session.packet_length_bytes) == (7, 100)
    assert session.replicas_str() == "7#1"
