"""The experiment on ECN marks, queues and probes: correct for each packet; it detects faults."""

from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from scripts import failed_checks, faulty_program, run, samples

from experiments.shared.tcp.probes import (
    FRAME_BYTES,
    HEADER_BYTES,
    ProbeData,
    matched,
    probe,
    read_sent,
    reported_by,
)

MAC = "02:00:00:00:00:05"
DATA_BYTES = 200
SHORT = ("--time", "virtual", "--duration", "3")


def test_all_is_as_theory_and_captures_say(tmp_path: Path) -> None:
    done = run("tcp_ecn", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert {row["series"] for row in rows} == {"drops", "ECN", "DCTCP", "probe"}
    for name in ("ECN", "DCTCP"):
        ours = [row for row in rows if row["series"] == name]
        marked = [row for row in ours if row["is_marked"] == "1"]
        assert 20 < len(marked) < len(ours) - 20
        assert min(int(row["max_queued"]) for row in marked) == 10
    rates = [8 * int(row["reported_bytes"]) / int(row["reported_us"])
             for row in rows if row["series"] == "probe"]  # fmt: skip
    # rates in Mbit/s: UDP alone, and the full link
    assert (round(rates[0]), round(rates[30])) == (3, 10)
    assert (tmp_path / "tcp_ecn.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("file", "right", "wrong", "found"),
    [
        ("ecn.p4", "ECN_THRESHOLD = 10;", "ECN_THRESHOLD = 11;",
         {"ECN: wrongly marked or unmarked segments",
          "DCTCP: wrongly marked or unmarked segments"}),
        ("ecn.p4", "standard_metadata.enq_qdepth",
         "standard_metadata.deq_qdepth", {"ECN: wrongly marked or unmarked segments"}),
        ("link_monitor.p4", "sent_bytes.write(port, 0);",
         "sent_bytes.write(port, standard_metadata.packet_length);",
         {"probes with wrong byte count"}),
        ("link_monitor.p4", "probed_us.write(port, standard_metadata.egress",
         "probed_us.write(port, 5 + standard_metadata.egress",
         {"probes with wrong interval"}),
        ("link_monitor.p4",
         "hdr.probe_data[0].port = (bit<8>)standard_metadata.egress_port",
         "hdr.probe_data[0].port = (bit<8>)standard_metadata.ingress_port",
         {"probes with wrong port"}),
    ],
    ids=["a threshold of 11", "the queue left behind", "bytes reported twice", "another time",
         "another port"],
)  # fmt: skip
def test_a_switch_that_is_wrong_is_found_out(
    file: str, right: str, wrong: str, found: set[str], tmp_path: Path
) -> None:
    option = "--ecn-program" if file == "ecn.p4" else "--monitor-program"
    copy = faulty_program(tmp_path, file, right, wrong, f"congestion/{file}")
    done = run("tcp_ecn", *SHORT, option, copy, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert found <= failed_checks(tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--duration", "2"), "use at least 3"),
        (("--duration", "long"), "--duration"),
        (("--ecn-program", "no/such.p4"), "no/such.p4"),
        (("--monitor-program", "p4src/routing/router.p4"), "ipv4_lpm"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = run("tcp_ecn", "--time", "virtual", *arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_missing_program_is_reported_before_the_first_network(tmp_path: Path) -> None:
    done = run("tcp_ecn", "--time", "virtual", "--monitor-program", "no/such.p4",
               "--out", str(tmp_path / "out"))  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no/such.p4" in done.stderr
    assert "network" not in done.stdout


class Captures:
    """Captures of a bmv2 switch and its panel. The queue of the link drops the second probe."""

    has_panels = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._write("in", 0, [0, 1, 2, 3])
        self._write("inner", 10, [0, 1, 2, DATA_BYTES, 3])
        self._write("out", 20, [0, 2, DATA_BYTES, 3])

    def _write(self, name: str, at_us: int, sent: list[int]) -> None:
        """Write probes with these numbers, and a frame of DATA_BYTES bytes."""
        frames = [
            Ether(bytes(DATA_BYTES) if number == DATA_BYTES else probe(number, [1], MAC))
            for number in sent
        ]
        for place, frame in enumerate(frames):
            frame.time = (1000 * place + at_us) / 1e6
        wrpcap(str(self.folder / name), frames, nano=True)

    def capture(self, switch: str, neighbour: str, what: str, *, inner: bool = False) -> Path:
        return self.folder / ("inner" if inner else what)


def test_a_probe_that_the_panel_drops_is_not_expected(tmp_path: Path) -> None:
    """A probe that the panel drops need not reach the receiver.

    bmv2 has counted and sent this probe, so the next byte count starts after it.
    """
    sent = read_sent(Captures(tmp_path), "s1", "h5", "s2")  # type: ignore[arg-type]
    delivered = reported_by([reported_probe(number) for number in (0, 2, 3)], hop=0)
    reported, sent = matched(delivered, sent)
    assert (sent.arrived, sent.on_link) == (4, 3)
    assert sent.numbers.tolist() == reported["number"].tolist() == [2, 3]
    assert sent.bytes.tolist() == [FRAME_BYTES, DATA_BYTES + FRAME_BYTES]


def reported_probe(number: int) -> bytes:
    """Return a probe with the data of one hop."""
    frame = probe(number, [1], MAC)
    return frame[:HEADER_BYTES] + bytes(ProbeData(byte_cnt=FRAME_BYTES)) + frame[HEADER_BYTES:]
