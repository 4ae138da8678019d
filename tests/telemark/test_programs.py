"""Programs and macros per switch, in real and virtual time; invalid programs and macros."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from loaded import StartExperiment
from virtual_networks import WIRE, Pair, virtually

from telemark.backends.real.targets.bmv2 import PROGRAM
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.programs import build, sources
from telemark.results.provenance import P4Source
from telemark.session.run import Run

TAG = WIRE.with_name("tag.p4")
SWITCHES = ("s1", "s2", "s3")

TWO_PROGRAMS = f"""
import finsy as fy
from controllers.connection import connection
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from topologies.basic import Line

topo, tag = Line(), {str(TAG)!r}
programs = {{"s1": tag, "s2": "p4src/routing/router.p4", "s3": tag}}
macros = {{"TAG": 0xA1, "s3": {{"TAG": 0xA3}}}}
counts = {{}}
with Network(topo, run, program=programs, defines=macros) as net:
    h2 = net.host("h2")
    send = fy.Action("send", mac_addr=h2.MAC(), port=net.port("s2", "s3"))
    match = fy.Match({{"hdr.ipv4.dst_addr": h2.IP() + "/32"}})
    flow = Flow(1, "h1", "h2", rate_pps=1000, count=50)
    s1, s2, s3 = (connection(net, name) for name in ("s1", "s2", "s3"))
    async with s1, s2, s3:
        await s2.write([+fy.P4TableEntry("routes", match=match, action=send)])
        async with Traffic(net, [flow]) as traffic:
            records = await traffic.finish()
        for switch in (s1, s3):
            entries = [entry async for entry in switch.read([fy.P4CounterEntry("passed")])]
            counts[switch.name] = [entry.packet_count for entry in entries]
files = {{name: net.folder / f"{{name}}.json" for name in ("tag", "router", "tag-2")}}
return Report([], PacketAccounting.from_network(net, records).checks(), metrics={{
    "received": len(records[1].received), "counts": counts,
    "sources": [sorted({{frame[6:12].hex() for frame in pcap.read_frames(path)[1]}})
                for path in (net.capture("s1", "s2", "out"), net.capture("s3", "h2", "out"))],
    "files": sorted(name for name, path in files.items() if path.is_file()),
}})
"""


@pytest.mark.parametrize(
    "where",
    [
        "--time=real",
        "--time=virtual",
        pytest.param("--target=bmv2", marks=pytest.mark.skipif(
            shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")),
    ],
)  # fmt: skip
def test_switches_of_one_network_run_two_programs(
    start_experiment: StartExperiment, tmp_path: Path, where: str
) -> None:
    """Each switch of a network can run its own program.

    s2 is a router. s1 and s3 write their tags. Each controller uses the program of its switch.
    """
    process = start_experiment(TWO_PROGRAMS, where, "--out", str(tmp_path / "out"))
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    programs = {(Path(p["path"]).name, *p["defines"]) for p in summary["programs"]}
    assert programs == {("router.p4", "TAG=161"), ("tag.p4", "TAG=161"), ("tag.p4", "TAG=163")}
    assert len({p["sha256"] for p in summary["programs"]}) == 3
    metrics: dict[str, Any] = summary["metrics"]
    assert metrics["received"] == 50
    assert metrics["counts"] == {"s1": [50, 0], "s3": [50, 0]}
    assert metrics["sources"] == [["0000000000a1"], ["0000000000a3"]]
    assert metrics["files"] == ["router", "tag", "tag-2"]


def test_each_program_is_compiled_once(tmp_path: Path) -> None:
    of_switch = sources(SWITCHES, TAG, {"TAG": 7, "s2": {"TAG": "0x7 + 1"}})
    assert of_switch["s1"].defines == ("TAG=7",)
    assert of_switch["s2"].defines == ("TAG=0x7 + 1",)
    built = build(of_switch, tmp_path, {})
    assert built["s1"] is built["s3"] is not built["s2"]
    assert [built[name].blob_path.name for name in SWITCHES] == [
        "tag.json", "tag-2.json", "tag.json",
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "tag-2.json", "tag-2.p4info.txtpb", "tag.json", "tag.p4info.txtpb",
    ]  # fmt: skip


def test_a_run_s_networks_share_what_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The networks of a run compile, report and hash a program only once.

    With other macros, the same file counts as a different program.
    """
    program = tmp_path / "wire.p4"
    program.write_text(WIRE.read_text() + "const bit<8> wide = 8w256;\n")
    read = Mock(wraps=P4Source.read)
    monkeypatch.setattr(P4Source, "read", read)

    async def main(run: Run) -> None:
        for number, macros in enumerate(({}, {}, {"A": 1}, {})):
            with Network(Pair(), run, program=program, name=str(number), defines=macros) as net:
                assert (net.folder / "wire.json").is_file()
        ours = {source for source in run.programs if source.path == program}
        assert {source.defines for source in ours} == {(), ("A=1",)}
        assert {source.defines for source in run.origin.programs} == {(), ("A=1",)}

    virtually(tmp_path, main)
    assert capsys.readouterr().err.count("warning: 8w256") == read.call_count == 2


@pytest.mark.parametrize(
    ("programs", "macros", "words"),
    [
        ("no/such.p4", {}, "^no P4 program .+/no/such.p4( or .+/no/such.p4)?$"),
        ("/no/such.p4", {}, "^no P4 program /no/such.p4$"),
        ({"s1": WIRE, "s2": WIRE}, {}, "^switch s3: no program; specify one for each switch$"),
        (
            dict.fromkeys((*SWITCHES, "s9"), WIRE), {},
            "^program: no switch s9; expected s1, s2, s3$",
        ),
        (WIRE, {"s4": {"A": 1}}, "^defines: no switch s4; expected s1,"),
        (WIRE, {"A B": 1}, "^macro A B=1: expected a name of letters, digits and _, and a whole"),
        (WIRE, {"s1": {"A": 1.5}}, "^macro A=1.5: expected"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(programs: Any, macros: Any, words: str) -> None:
    with pytest.raises(TestbedError, match=words) as raised:
        sources(SWITCHES, programs, macros)
    assert "\n" not in str(raised.value)


def test_warnings_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "wire.p4"
    program.write_text(WIRE.read_text() + "const bit<8> wide = 8w256;\n")
    line = program.read_text().count("\n")
    build(sources(SWITCHES, program, {}), tmp_path, {})
    shown = capsys.readouterr().err
    assert shown.startswith(f"{program}:{line}:21: warning: 8w256 does not fit")
    assert shown.count("8w256;") == 1
