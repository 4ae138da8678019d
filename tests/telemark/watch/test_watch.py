"""--watch: the page's server, its measurements, and a run that is paced and not changed by it."""

import math
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loaded import EXPERIMENTS, Started, StartExperiment
from virtual_networks import WIRE, Pair, virtually
from watching import Lossy, address_of, events, port, set_speed, status_of

from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.watch.display import Display
from telemark.watch.measurement import describe, measure
from telemark.watch.publisher import UPDATE_S, Publisher, WatchServer

HEAD = f"""
import asyncio
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from virtual_networks import WIRE, Pair
from telemark.network import Network
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.tcp import TcpFlow

async def measure(count, run):
    link = dict(rate_bps=5_000_000, delay_us=700, loss_probability=0.1, jitter_us=300)
    with Network(Pair(**link), run, program=str(WIRE)) as net:
        times = []
        flows = [
            Flow(1, "h1", "h2", rate_pps=1000, count=count, size=1000),
            TcpFlow(2, "h1", "h2", size_bytes=20_000),
        ]
        async with Traffic(net, flows) as traffic:
            for _ in range(50):  # asyncio timers: their times are floats
                await asyncio.sleep(0.0123)
                times.append(run.clock.now_ns())
            records = await traffic.finish()
    times += records[2].received["time_ns"].tolist()
    return times + records[1].received["received_ns"].tolist()
"""
DIRECT = """
times = await measure(600, run)
return Report([{"time_ns": each} for each in times], [Check("times", len(times), 600, 80)])
"""
# Each sweep has its own process.
SWEEP = DIRECT.replace(
    "await measure(600, run)",
    "sum([(await sweep(measure, [(n,)], run))[0] for n in (200, 300)], [])",
)


def between(network: dict[str, Any], sender: str, receiver: str) -> int:
    """Return the index of a direction."""
    directions = [(each["from"], each["to"]) for each in network["directions"]]
    return directions.index((sender, receiver))


@pytest.fixture
def server(capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[WatchServer, str]]:
    """A server without a run, and the address of its page."""
    with WatchServer("<name>", is_virtual=True) as found:
        yield found, capsys.readouterr().out.split()[1]


def test_a_server_responds_only_to_its_token(server: tuple[WatchServer, str]) -> None:
    _, url = server
    root = url.rsplit("/", 2)[0]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", root)
    assert status_of(url) == 200
    for path in ("/", "/events", "/wrong/", "/wrong/events", url[len(root) : -2] + "/"):
        assert status_of(root + path) == 403
    assert set_speed(f"{root}/wrong/", "1") == 403
    assert status_of(url + "unknown") == 404


def test_an_address_without_the_last_slash_leads_to_the_page(
    server: tuple[WatchServer, str],
) -> None:
    with urllib.request.urlopen(server[1][:-1]) as response:
        assert response.url == server[1]


def test_a_page_shows_the_name_as_text(server: tuple[WatchServer, str]) -> None:
    with urllib.request.urlopen(server[1]) as response:
        assert "<h1>&lt;name&gt; " in response.read().decode()


@pytest.mark.parametrize("speed", ["-1", "nan", "fast", ""])
def test_an_invalid_speed_is_refused(server: tuple[WatchServer, str], speed: str) -> None:
    assert set_speed(server[1], speed) == 400


def test_a_new_browser_does_not_get_measurements_of_an_earlier_network(
    server: tuple[WatchServer, str],
) -> None:
    publisher = server[0].publisher
    publisher.start_network("first", Pair(), [], 0)
    publisher.send({"measurement": {"time_ns": 1}})
    publisher.start_network("second", Pair(), [], 0)
    assert any(data.get("name") == "second" for _, data in events(server[1]))
    kind, data = next(events(server[1]))
    assert (kind, data["name"]) == ("network", "second")


def test_all_messages_before_the_end_arrive(server: tuple[WatchServer, str]) -> None:
    seen = events(server[1])
    server[0].publisher.start_network("name", Pair(), [], 0)
    assert next(seen)[0] == "network"
    for number in range(500):
        server[0].publisher.display.alert("source", number, "text")
    server[0].__exit__()
    found = [*seen]
    assert [kind for kind, _ in found] == ["message"] * 500 + ["end"]


def test_a_server_ends_although_a_process_still_has_the_pipe(
    server: tuple[WatchServer, str],
) -> None:
    server[0]._channel.shutdown(socket.SHUT_WR)
    assert server[0]._process.wait(60) == 0


def test_real_time_has_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    with WatchServer("name", is_virtual=False):
        assert set_speed(capsys.readouterr().out.split()[1], "1") == 404


def test_each_direction_has_the_rate_of_its_switch_port() -> None:
    found = describe("name", Lossy())["directions"]
    assert [(each["from"], each["to"], each["rate_bps"]) for each in found] == [
        ("h1", "s1", None), ("s1", "h1", 1000), ("s1", "s2", 2000), ("s2", "s1", 3_000_000),
    ]  # fmt: skip


def test_measurements_are_from_the_counters_of_switches() -> None:
    counters = {
        "s1": {"engine": {"received": 9, "ingress_drops": 4, "queue_drops": 5},
               "ports": {"1": port(received_bytes=70, transmitted_bytes=80),
                         "2": port(transmitted_bytes=900, enqueued_now=3, queue_drops=5,
                                   sent_packets=9, sent_bytes=900, delivered_packets=6,
                                   delivered_bytes=600, lost_packets=2)}},
        "s2": {"engine": {"received": 6}, "ports": {"1": port()}},
    }  # fmt: skip
    found = measure(describe("name", Lossy()), counters, 5)
    nothing = {"lost": 0, "queued": 0, "on_link": 0, "queue_drops": 0}
    assert found == {
        "time_ns": 5,
        "directions": [
            {"bytes": 70},
            {"bytes": 80, **nothing},  # a link without properties does not count
            {"bytes": 600, "lost": 2, "queued": 3, "on_link": 1, "queue_drops": 5},
            {"bytes": 0, **nothing},
        ],
        "drops": {"s1": {"ingress_drops": 4, "queue_drops": 5}, "s2": {}},
    }


def test_drops_of_bmv2_are_from_the_counters_of_its_panel() -> None:
    inner = {"258": {**port(), "transmitted_packets": 9, "received_packets": 6}}
    counters = {"s1": {"engine": {"ingress_drops": 4}, "ports": {"1": port(), "2": port(), **inner},
                       "other_ports": {}}}  # fmt: skip
    found = measure(describe("name", Lossy(), "bmv2"), counters, 5)
    assert found["drops"] == {"s1": {"bmv2_drops": 3}}


@pytest.mark.parametrize("body", [DIRECT, SWEEP])
def test_watching_does_not_change_results(
    body: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    virtual = ("--time", "virtual")
    process = start_experiment(body, *virtual, "--out", str(tmp_path / "plain"), head=HEAD)
    assert process.communicate()[1] == ""
    watched = start_experiment(
        body, *virtual, "--watch", "--out", str(tmp_path / "watched"), head=HEAD
    )
    url = address_of(watched)
    seen = events(url)
    kind, network = next(seen)
    assert kind == "network"
    assert set_speed(url, "10") == 204
    found = [*seen]
    assert watched.communicate()[1] == ""
    plain, changed = (tmp_path / name / "samples.csv" for name in ("plain", "watched"))
    assert changed.read_bytes() == plain.read_bytes()
    measured = [data for kind, data in found if kind == "measurement"]
    assert len(measured) >= 2
    assert measured[-1]["directions"][between(network, "s1", "s2")]["lost"] > 0
    assert [kind for kind, _ in found if kind != "measurement"][-2:] == ["stopped", "end"]


def test_a_run_in_virtual_time_waits_for_its_page(start_experiment: StartExperiment) -> None:
    process = start_experiment(DIRECT, "--time", "virtual", "--watch", head=HEAD)
    url = address_of(process)
    seen = events(url)
    assert next(seen)[0] == "network"
    kind, data = next(each for each in seen if each[0] != "flows")
    assert (kind, data["time_ns"]) == ("measurement", 1_000_000_000)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    set_speed(url, "inf")
    assert process.communicate()[1] == ""


def test_ctrl_c_ends_a_paused_run_and_its_server(start_experiment: StartExperiment) -> None:
    process = start_experiment(DIRECT, "--time", "virtual", "--watch", head=HEAD)
    url = address_of(process)
    seen = events(url)
    assert next(seen)[0] == "network"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "\nexample: interrupted\n"
    assert process.returncode == 130
    assert [*seen][-1][0] == "end"
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(url)


class Clock:
    """Replaces time.monotonic(): the time advances while select() waits."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits: list[float | None] = []

    def monotonic(self) -> float:
        return self.now_s

    def select(self, reading: list[Any], _w: object, _x: object, left_s: float | None) -> Any:
        self.waits.append(left_s)
        self.now_s += left_s or 0
        return ([], [], [])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("telemark.watch.publisher.time", found)
    monkeypatch.setattr("telemark.watch.publisher.select", found)
    return found


def pace(publisher: Publisher, read: Callable[[], Any], turns: int) -> list[int]:
    """Let a network run for some steps that take no time; return the length of each step."""
    steps = []
    for _ in range(turns):
        begin_ns = publisher.next_ns
        publisher.pace(begin_ns, read)
        steps.append(publisher.next_ns - begin_ns)
    return steps


@pytest.mark.parametrize("speed", [0.01, 1.0, 10.0])
def test_virtual_time_has_the_selected_speed(clock: Clock, speed: float) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher = Publisher(ours, Display(-1), is_virtual=True, flow_counts=-1)
        publisher._speed = speed
        publisher.start_network("name", Pair(), [], 0)
        pace(publisher, dict, 40)
        begin_ns, begin_s = publisher.next_ns, clock.now_s
        steps = pace(publisher, dict, 20)
        assert min(steps) == max(steps) == min(0.2e9 * speed, 1e9)
        assert (publisher.next_ns - begin_ns) / 1e9 == pytest.approx(
            speed * (clock.now_s - begin_s), rel=0.1
        )


@pytest.mark.parametrize("speed", [0.001, 1e-300])
def test_a_lower_speed_takes_effect_at_once(clock: Clock, speed: float) -> None:
    """The step before may last 1 s of virtual time, which is 1000 s at 1 ms/s."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher = Publisher(ours, Display(-1), is_virtual=True, flow_counts=-1)
        publisher._step_ns, publisher._speed = 1e9, speed
        publisher.start_network("name", Pair(), [], 0)
        pace(publisher, dict, 1)
        assert clock.waits == [UPDATE_S]


def test_without_its_server_a_run_continues() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        publisher = Publisher(ours, Display(-1), is_virtual=True, flow_counts=-1)
        theirs.close()
        publisher.start_network("name", Pair(), [], 0)
        pace(publisher, dict, 3)
        assert publisher._speed == math.inf


def test_flows_of_traffic_that_is_left_early_have_no_final_counts(tmp_path: Path) -> None:
    flows = [Flow(1, "h1", "h2", rate_pps=1000, count=10)]
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        publisher = Publisher(ours, Display(-1), is_virtual=True, flow_counts=-1)

        async def leave_and_finish(run: Run) -> None:
            with Network(Pair(), replace(run, publisher=publisher), program=str(WIRE)) as net:
                async with Traffic(net, flows):
                    pass
                async with Traffic(net, flows) as traffic:
                    await traffic.finish()

        virtually(tmp_path, leave_and_finish)
    assert [flow["counts"] for flow in publisher._flows] == [None, (10, 10)]


def test_parallel_runs_are_refused(start_experiment: StartExperiment) -> None:
    process = start_experiment("never", "--watch", "--time", "virtual", "--jobs", "2")
    assert "--jobs 2: the page of --watch shows one run at a time" in process.communicate()[1]
    assert process.returncode == 2


def test_a_run_in_real_time_is_watched_and_leaves_nothing(
    start_experiment: StartExperiment,
) -> None:
    process = start_experiment(DIRECT.replace("600", "20000"), "--watch", head=HEAD)
    url = address_of(process)
    passed, network = 0, {}
    for kind, data in events(url):
        if kind == "network":
            network = data
        elif kind == "measurement":
            passed = data["directions"][between(network, "s1", "s2")]["bytes"]
            if passed > 100_000:
                process.send_signal(signal.SIGINT)
                break
    assert passed > 100_000
    assert process.communicate()[1] == "\nexample: interrupted\n"
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(url)


WATCHED = """
from applications import Alerting
from telemark.watch.display import Series

async def shown(count, run):
    with Network(Pair(), run, program=str(WIRE)) as net:
        net.run_application("h2", Alerting())
        flows = [
            Flow(7, "h1", "h2", rate_pps=1000, count=count),
            TcpFlow(8, "h1", "h2", size_bytes=125 * count, rate_bps=1_000_000),
        ]
        async with Traffic(net, flows) as traffic:
            records = await traffic.finish()
    series = Series("script", "quantity", "h2", "packets")
    run.display.add(series, [(run.clock.now_ns(), 1)], [(run.clock.now_ns(), 2)])
    return [len(records[7].received), records[8].received_bytes]
"""
BODY = """
received, received_bytes = await shown(500, run)
return Report([], [Check("packets", received, 500), Check("bytes", received_bytes, 62_500)])
"""


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_flows_applications_and_the_script_are_shown(
    start_experiment: StartExperiment, time: str
) -> None:
    process = start_experiment(BODY, "--time", time, "--watch", head=HEAD + WATCHED)
    url = address_of(process)
    seen = events(url)
    found: list[tuple[str, Any]] = []
    if time == "virtual":
        found.append(next(seen))
        assert set_speed(url, "1") == 204
    found += seen
    assert process.communicate()[1] == ""
    flows = [data for kind, data in found if kind == "flows"]
    assert flows[-1] == [{
        "id": 7, "protocol": "UDP", "from": "h1", "to": "h2",
        "endpoints": ["10.0.0.1", "10.0.0.2", 49159, 5007], "path": ["s1", "s2"],
        "counts": [500, 500],
    }, {
        "id": 8, "protocol": "TCP", "from": "h1", "to": "h2",
        "endpoints": ["10.0.0.1", "10.0.0.2", 49160, 5008], "path": ["s1", "s2"],
        "counts": [62_500, 62_500],
    }]  # fmt: skip
    messages = [data for kind, data in found if kind == "message"]
    assert [each["alert"][1:] for each in messages if "alert" in each] == [
        ["application", "from h2"]
    ]
    assert [each["series"] for each in messages if "series" in each] == [
        ["script", "quantity", "h2", "packets"]
    ]
    assert all(0 <= each["alert"][0] < 60 for each in messages if "alert" in each)
    if time == "virtual":
        assert any(are_running(data, 500) for kind, data in found if kind == "measurement")


def are_running(measurement: dict[str, Any], packets: int) -> bool:
    """Return whether both flows of WATCHED have sent and received a part of their data."""
    counts = measurement.get("flows") or [None]
    return all(
        pair is not None and 0 < pair[1] <= pair[0] < whole
        for pair, whole in zip(counts, (packets, 125 * packets), strict=False)
    )


def test_counts_of_flows_in_real_time_are_current(start_experiment: StartExperiment) -> None:
    body = BODY.replace("500", "20_000")
    process = start_experiment(body, "--watch", head=HEAD + WATCHED)
    seen = events(address_of(process))
    assert any(are_running(data, 20_000) for kind, data in seen if kind == "measurement")
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "\nexample: interrupted\n"


EXPERIMENT_OPTIONS = {
    "ampm_loss": ("--quick", "--loss", "5", "--method", "step"),
    "int_path": ("--packets", "60"),
    "int_microburst": ("--before", "0.2"),
    "ioam_path": ("--packets", "60"),
    "dta_keywrite": ("--quick", "--slots", "256", "--model-slots", "256"),
    "dta_postcarding": ("--quick", "--flows", "20"),
}


@pytest.fixture(scope="module", params=EXPERIMENT_OPTIONS)
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, list[dict[str, Any]]]:
    """Name and results of an experiment with --watch, and what it and its collectors sent."""
    folder = tmp_path_factory.mktemp("watched")
    virtual = ("--time", "virtual", "--watch", "--out", str(folder))
    name: str = request.param
    process = Started(EXPERIMENTS / f"{name}.py", *virtual, *EXPERIMENT_OPTIONS[name])
    url = address_of(process)
    assert set_speed(url, "inf") == 204
    messages = [data for kind, data in events(url) if kind == "message"]
    assert process.communicate()[1] == ""
    return name, folder, messages


Watched = tuple[str, Path, list[dict[str, Any]]]


def test_watching_does_not_change_an_experiment(watched: Watched, tmp_path: Path) -> None:
    name, folder, _ = watched
    virtual = ("--time", "virtual", "--out", str(tmp_path))
    done = Started(EXPERIMENTS / f"{name}.py", *virtual, *EXPERIMENT_OPTIONS[name])
    assert done.communicate()[1] == ""
    plain, changed = (each / "samples.csv" for each in (tmp_path, folder))
    assert changed.read_bytes() == plain.read_bytes()


def test_measured_values_agree_with_ground_truth(watched: Watched) -> None:
    _, _, messages = watched
    found: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {}
    for message in messages:
        if "series" in message:
            network, (source, quantity, where, _) = message["network"], message["series"]
            measured, true = found.setdefault((network, source, quantity, where), ([], []))
            measured += message["points"]
            true += message["truth"]
    known = {key: values for key, values in found.items() if values[1]}
    assert known
    for (_, source, quantity, _), (measured, true) in known.items():
        assert measured
        if source == "INT":  # an interval may be divided
            assert max(value for _, value in measured) == max(value for _, value in true)
        elif quantity != "mean delay per block":  # inexact if packets are lost
            for time, value in measured:
                assert min(true, key=lambda point: abs(point[0] - time))[1] == value
