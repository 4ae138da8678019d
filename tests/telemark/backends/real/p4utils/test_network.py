"""minip4 as a switch of p4-utils: the options of the switch process.

Stand-ins replace the classes of p4-utils.
"""

import argparse
import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from minip4.runtime.switch import cli, port_options
from telemark.backends.real.p4utils.environment import IN_ENV, environment

STAND_IN = Path(__file__).with_name("stand_in")
TINY = Path(__file__).parents[3] / "programs" / "wire.p4"


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return the module that runs in the environment of p4-utils."""
    before = {*sys.modules}
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.syspath_prepend(str(IN_ENV))
    yield importlib.import_module("telemark_p4utils")
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in ("p4utils", "telemark_p4utils"):
            del sys.modules[name]


def switch(there: ModuleType, **options: Any) -> Any:
    found = there.Minip4Switch("s1", 7, **{"json_path": "x.json", "grpc_port": 9560, **options})
    found.intfs = {0: SimpleNamespace(name="lo", params={}),
                   3: SimpleNamespace(name="s1-eth3", params={"bw": 5, "delay": "2ms"}),
                   4: SimpleNamespace(name="s1-eth4", params={"weight": 1})}  # fmt: skip
    return found


def options_of(command: list[str]) -> argparse.Namespace:
    """Return the options as `minip4 switch` parses them."""
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    assert command[1] == "switch"
    return parser.parse_args(command[2:])


def test_what_a_switch_is_started_with(there: ModuleType) -> None:
    given = switch(there, p4rt_path="x_p4rt.txt", pcap_dump=True, pcap_dir="./pcap",
                   priority_queues_num=8)  # fmt: skip
    found = options_of(given.add_arguments())
    assert [(each.port, each.name) for each in found.interfaces] == [(3, "s1-eth3"), (4, "s1-eth4")]
    assert (found.device_id, found.grpc_server_addr) == (7, "127.0.0.1:9560")
    assert (str(found.p4info), str(found.pcap), found.trace) == ("x_p4rt.txt", "pcap", None)
    assert found.priority_queues == 8
    (link,) = found.links
    assert (link.port, link.rate_bps, link.delay_us) == (3, 5_000_000, 2000)
    assert (link.seed, found.seed) == (there.seed_of("s1-eth3"), there.seed_of("s1"))
    assert str(options_of(switch(there, log_enabled=True).add_arguments()).trace) == "-"


def test_each_end_of_a_link_is_random_of_its_own(
    there: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("s1", "s1-eth1", "s1-eth2")
    first = [there.seed_of(name) for name in names]
    monkeypatch.setenv("TELEMARK_SEED", "2")
    assert len({*first, *(there.seed_of(name) for name in names)}) == 6


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"bw": 0.5}, {"rate_bps": 500_000}),
        ({"delay": "5ms", "jitter": "10us"}, {"delay_us": 5000, "jitter_us": 10}),
        ({"delay": "1.5s"}, {"delay_us": 1_500_000}),
        ({"delay": "100"}, {"delay_us": 100}),  # as in tc, a number without a unit is in us
        ({"delay": 100}, {"delay_us": 100}),
        ({"loss": 2.5, "max_queue_size": 50}, {"loss_probability": 0.025, "queue_packets": 50}),
        ({"weight": 3, "bw": None}, None),
    ],
)
def test_links_mean_what_tc_means(
    there: ModuleType, params: dict[str, Any], expected: dict[str, float] | None
) -> None:
    text = there.link_properties("s1-eth1", params)
    if expected is None:
        assert text == ""
        return
    link = port_options.link(f"1:{text}")
    assert {key: getattr(link, key) for key in expected} == expected
    assert text.count("=") == len(expected)


@pytest.mark.parametrize("params", [{"delay": "soon"}, {"bw": "fast"}, {"max_queue_size": "x"}])
def test_what_is_no_link_gets_one_line(there: ModuleType, params: dict[str, Any]) -> None:
    (word,) = params
    with pytest.raises(
        there.Minip4Error, match=f"^s1-eth1: {word} '.*': not a valid value for tc$"
    ):
        there.link_properties("s1-eth1", params)


def test_what_minip4_has_not_gets_one_line(there: ModuleType) -> None:
    with pytest.raises(there.Minip4Error, match=r"switch s1: no P4 program; call setP4Source\(\)"):
        switch(there, json_path=None).add_arguments()
    with pytest.raises(there.Minip4Error, match=r"switch s1: minip4 has no debugger.*enableLog"):
        switch(there, enable_debugger=True)


def test_a_program_is_compiled_to_where_p4c_would_put_it(there: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "a b.p4"
    program.write_text(TINY.read_text() + "\n#ifndef GIVEN\n#error not given\n#endif\n")
    compiler = there.Minip4Compiler(
        str(program), p4rt=False, opts="--target  bmv2 --arch v1model --std p4-16 -D GIVEN=1"
    )
    compiler.compile()
    assert compiler.compiled
    assert {path.name for path in tmp_path.iterdir()} == {"a b.p4", "a b.json", "a b_p4rt.txt"}
    assert "v1model" in (tmp_path / "a b_p4rt.txt").read_text()
    assert compiler.cksum == f"sum of {program}"

    wrong = there.Minip4Compiler(str(program))
    with pytest.raises(there.CompilationError, match=r"a b\.p4:\d+.*not given"):
        wrong.compile()
    assert not wrong.compiled


def test_a_switch_starts_and_ends(there: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "tiny.p4"
    program.write_text(TINY.read_text())
    compiler = there.Minip4Compiler(str(program))
    compiler.compile()
    given = switch(there, json_path=compiler.json_out, grpc_port=0, log_enabled=True,
                   log_dir=str(tmp_path))  # fmt: skip
    given.intfs = {}
    given.start()
    process = given._process
    assert given.switch_running()
    assert "ready (device 7" in (tmp_path / "p4s.s1.log").read_text()
    given.stop()
    assert not given.switch_running()
    assert process.returncode == 0  # it ended normally, so its files are complete


def test_a_switch_that_cannot_start_says_why(there: ModuleType, tmp_path: Path) -> None:
    given = switch(there, json_path=str(tmp_path / "none.json"))
    with pytest.raises(there.Minip4Error, match=r"^switch s1: did not start: .*none\.json"):
        given.start()


def test_all_switches_are_minip4_s_but_those_of_another_class(there: ModuleType) -> None:
    network = there.NetworkAPI()
    network.addP4Switch("s1")
    network.addP4RuntimeSwitch("s2")
    network.addP4Switch("s3", cls=dict)
    network.addLink("s1", "s2", bw=5)
    given = network.given
    assert [given[name]["cls"] for name in ("s1", "s2", "s3")] == [there.Minip4Switch] * 2 + [dict]
    assert [given[name].get("isP4RuntimeSwitch", False) for name in given if name != ("s1", "s2")] \
        == [True, True, False]  # fmt: skip
    assert given["s1", "s2"] == {"bw": 5, "cls": there.Minip4Link}
    assert network.modules == {"compiler": there.Minip4Compiler, "client": there.Minip4Client}


def test_what_runs_there_needs_nothing_of_ours() -> None:
    known = {*sys.stdlib_module_names, "mininet", "p4utils", "p4", "google", "grpc", "psutil",
             "telemark_p4utils"}  # fmt: skip
    paths = [*IN_ENV.rglob("*.py")]
    assert len(paths) == 4
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= known, path


@pytest.mark.parametrize("is_minip4", [False, True])
def test_controllers_on_minip4_find_no_thrift(p4utils_stand_in: Path, is_minip4: bool) -> None:
    own = [IN_ENV / "on_minip4"] if is_minip4 else []
    code = "import importlib.util as u; print(*(u.find_spec(f'p4utils.utils.{name}').origin for " \
           "name in ('sswitch_thrift_API', 'client')))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=environment(sys.executable, *own),
                          capture_output=True, text=True, check=True)  # fmt: skip
    expected = "thrift_on_minip4" if is_minip4 else "sswitch_thrift_API"
    assert [Path(word).stem for word in done.stdout.split()] == [expected, "client"]
