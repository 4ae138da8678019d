"""With --keep, captures and logs remain after the run."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from loaded import StartExperiment
from scapy.layers.inet import IP, TCP, UDP
from scapy.utils import RawPcapReader, rdpcap

from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.session import artifacts

HEAD = f"""
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line
WIRE = {str(Path(__file__).parents[1] / "programs" / "wire.p4")!r}
"""
BODY = """
with Network(Line(switches=1), run, program=WIRE) as net:
    async with Traffic(net, [Flow(1, "h1", "h2", 1000, 20), Flow(2, "h1", "h2", 99, 2, 900)]) as t:
        records = await t.finish()
{}
return Report([], [Check("received", len(records[1].received), 20)])
"""


def times_ns(path: Path) -> list[int]:
    with RawPcapReader(str(path)) as reader:
        return [meta.sec * 10**9 + meta.usec for _, meta in reader]


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_captures_have_the_time_of_day_and_stay_readable(
    start_experiment: StartExperiment, tmp_path: Path, kind: str
) -> None:
    began_ns = time.time_ns()
    # the second run replaces the files of the first
    for body in (BODY.format("1 / 0"), BODY.format("net.discard()")):
        process = start_experiment(body, "--time", kind, "--keep", head=HEAD)
        output, errors = process.communicate()
        folder = tmp_path / "out" / "run"
        assert f"Captures and logs: {folder}" in output.replace("\n", ""), output + errors
    assert process.returncode == 0
    came = times_ns(folder / "network" / "s1-eth1_in.pcap")
    assert len(came) == 22
    if kind == "real":
        assert began_ns < came[0] <= came[-1] < time.time_ns()
        assert (folder / "network" / "s1.log").exists()
        assert (folder / "network" / "flow-1.received").stat().st_size
    else:
        assert 10**9 <= came[0] < 2 * 10**9
    assert 15 * 10**6 < came[-1] - came[0] < 10**9


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_kept_frames_are_whole_and_their_checksums_valid(
    start_experiment: StartExperiment, tmp_path: Path, kind: str
) -> None:
    body = """
with Network(Line(switches=1), run, program=WIRE) as net:
    flows = [Flow(1, "h1", "h2", 1000, 20, 900), TcpFlow(2, "h1", "h2", size_bytes=20_000)]
    async with Traffic(net, flows) as traffic:
        await traffic.finish()
return Report([], [Check("done", 1, 1)])
"""
    head = HEAD + "from telemark.traffic.tcp import TcpFlow\n"
    process = start_experiment(body, "--time", kind, "--keep", head=head)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    for name in ("s1-eth1_in", "s1-eth2_out", "s1-eth1_out"):
        packets = rdpcap(str(tmp_path / "out" / "run" / "network" / f"{name}.pcap"))
        assert len(packets) > (20 if name != "s1-eth1_out" else 1)
        for packet in packets:
            assert len(packet) == packet.wirelen
            layer = UDP if UDP in packet else TCP
            found = packet[layer].chksum
            again = packet[IP].copy()
            del again[layer].chksum
            assert found == IP(bytes(again))[layer].chksum != 0


def test_snaplen_limits_kept_frames_and_needs_keep(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    body = BODY.format("")
    process = start_experiment(body, "--time", "virtual", "--keep", "--snaplen", "200", head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    path = tmp_path / "out" / "run" / "network" / "s1-eth1_in.pcap"
    assert max(map(len, rdpcap(str(path)))) == 200
    process = start_experiment(body, "--time", "virtual", "--snaplen", "200", head=HEAD)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (
        2, "example: error: --snaplen: no effect without --keep; add --keep\n",
    )  # fmt: skip


def test_without_it_nothing_stays(start_experiment: StartExperiment, tmp_path: Path) -> None:
    process = start_experiment(BODY.format("net.discard()"), "--time", "virtual", head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "samples.csv", "summary.json",
    ]  # fmt: skip


def test_a_folder_of_the_users_is_left_alone(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    mine = tmp_path / "out" / "run" / "mine"
    mine.parent.mkdir(parents=True)
    mine.touch()
    process = start_experiment(BODY, "--time", "virtual", "--keep", head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2
    assert errors.endswith("is not from an earlier run; move or remove it\n")
    assert mine.exists()


def capture_file(*sizes: int) -> bytes:
    header = np.array([pcap.MAGIC_NS, 0, 0, 0, 0, 1], "<u4").tobytes()
    records = [
        np.array([7, 999_999_999, size, size], "<u4").tobytes() + bytes(size) for size in sizes
    ]
    return header + b"".join(records)


def test_times_are_carried_over_and_frames_are_not_touched(tmp_path: Path) -> None:
    source, target = tmp_path / "a.pcap", tmp_path / "b.pcap"
    source.write_bytes(capture_file(60, 60, 900, 60))
    pcap.shift(source, target, 5 * 10**9 + 1)
    assert times_ns(target) == [13 * 10**9] * 4
    assert list(pcap.read(target).length) == [60, 60, 900, 60]
    assert target.read_bytes()[40:100] == bytes(60)


def test_a_capture_of_a_switch_that_was_killed_is_kept_as_it_is(tmp_path: Path) -> None:
    run, folder = tmp_path / "run", tmp_path / "kept"
    (run / "network").mkdir(parents=True)
    cut = run / "network" / "s1-eth1_in.pcap"
    cut.write_bytes(capture_file(60)[:-1])
    (problem,) = artifacts.keep(run, folder, offset_ns=1)
    assert (
        problem
        == f"{cut}: file ends within a frame; its times are relative to the boot of this machine"
    )
    assert (folder / "network" / cut.name).read_bytes() == cut.read_bytes()
    (folder / artifacts.ABOUT).unlink()
    with pytest.raises(TestbedError, match="move or remove it"):
        artifacts.keep(run, folder, offset_ns=1)


@pytest.fixture
def short_files() -> Iterator[None]:
    """Limit files to 1,000 bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("offset_ns", [None, 1])
def test_a_disk_that_is_full_is_told_in_one_line(
    tmp_path: Path, request: pytest.FixtureRequest, offset_ns: int | None
) -> None:
    """If the disk is full, --keep gives one line and leaves no part of the captures on the disk."""
    run, folder = tmp_path / "run", tmp_path / "kept"
    (run / "network").mkdir(parents=True)
    (run / "network" / "s1-eth1_in.pcap").write_bytes(capture_file(60))
    (run / "network" / "s1-eth2_in.pcap").write_bytes(capture_file(60, 1500))
    request.getfixturevalue("short_files")
    with pytest.raises(TestbedError) as told:
        artifacts.keep(run, folder, offset_ns)
    assert str(told.value) == f"--keep: cannot write {folder}: File too large"
    assert not folder.exists()


FULL = """
from telemark.session import artifacts
def full(*_arguments):
    raise TestbedError("--keep: no room")
artifacts.keep = full
"""


@pytest.mark.parametrize("failure", ["", "raise TestbedError('of its own')"])
def test_what_a_run_failed_for_is_told_beside_it(
    start_experiment: StartExperiment, failure: str
) -> None:
    head = "from telemark.errors import TestbedError" + FULL
    process = start_experiment(
        failure + "\nreturn Report([], [Check('one', 1, 1)])", "--time", "virtual", "--keep",
        head=head,
    )  # fmt: skip
    output, errors = process.communicate()
    assert process.returncode == 2
    assert errors == f"example: error: {'of its own' if failure else '--keep: no room'}\n"
    assert ("--keep: no room" in output) == bool(failure)
