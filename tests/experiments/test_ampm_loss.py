"""The loss experiment as users run it: losses are exact, and miscounts are detected."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import scripts
from loaded import Started
from scripts import failed_checks, faulty_program, largest_kept, samples

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "experiments" / "ampm_loss.py"
SHORT = ("--loss", "5", "--blocks", "2", "--block-us", "524288", "--rate", "500")
METHODS = 5
SEGMENTS = 3


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return scripts.run("ampm_loss", *arguments)


def test_every_complete_block_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_FIGURES", "1")
    done = run(*SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not failed_checks(tmp_path)
    assert len(samples(tmp_path)) == 2 * METHODS * SEGMENTS
    assert (tmp_path / "ampm_loss.png").stat().st_size > 10_000
    assert (tmp_path / "ampm_loss.svg").exists()
    assert (tmp_path / "ampm_loss.pdf").exists()


def test_virtual_time_is_exact_for_every_seed(tmp_path: Path) -> None:
    """In virtual time, measured loss equals true loss for every seed.

    The load of the machine has no influence: the numbers of losses, blocks and packets are fixed.
    """
    losses = ("--loss", "0.1", "10", "50", "--blocks", "16", "--block-us", "65536")
    done = run(*losses, "--time", "virtual", "--seeds", "3", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert len(rows) == 3 * 3 * 16 * METHODS * SEGMENTS
    assert all(row["measured"] == row["true"] for row in rows)
    # The true loss is unknown only between pulses that were lost.
    assert {row["method"] for row in rows if not row["true"]} == {"pulse"}
    assert sum(int(row["true"] or 0) for row in rows) > 10_000
    assert largest_kept(tmp_path) < 15_000


def test_where_nothing_arrives_no_pulse_is_compared(tmp_path: Path) -> None:
    done = run(*SHORT, "--loss", "100", "--time", "virtual", "--seeds", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["measured"] for row in samples(tmp_path) if row["method"] == "pulse"} == {""}


def test_packets_of_another_block_s_colour_are_found_out(tmp_path: Path) -> None:
    """Packets with the colour of another block are detected.

    Near the end of a block, some packets get the next colour. All switches agree, but all of them
    are wrong.
    """
    right = "bit<48> block = watch.now_us >> block_shift;"
    early = "((bit<48>)hdr.ports.word[0:0] << (block_shift - 3))"  # selected by the UDP checksum
    wrong = f"bit<48> block = (watch.now_us + {early}) >> block_shift;"
    program = faulty_program(tmp_path, "watch.p4", right, wrong)
    options = ("--time", "virtual", "--seeds", "2", "--method", "step", "--program", program)
    done = run(*SHORT, *options, "--loss", "10", "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {
        "loss 10 %, step: max loss error per block (packets)"
    }


def test_virtual_time_gives_the_same_bytes_whatever_else_runs(tmp_path: Path) -> None:
    """A run in virtual time gives the same bytes, even if other runs load the machine.

    All runs of the test are executed in parallel.
    """
    arguments = ("--time", "virtual", *SHORT, "--method", "double", "--seeds", "1")
    seeds = {"one": "1", "again": "1", "other": "2"}
    running = [
        Started(SCRIPT, *arguments, "--seed", seed, "--out", str(tmp_path / name))
        for name, seed in seeds.items()
    ]
    for each in running:
        output, errors = each.communicate()
        assert each.returncode == 0, output + errors
    one, again, other = ((tmp_path / name / "samples.csv").read_bytes() for name in seeds)
    assert one == again
    assert one != other


# Run as another user who may read all files, because the repository can be in a folder of root.
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
             "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
             "--bounding-set=-all,+dac_read_search"]  # fmt: skip


def test_virtual_time_needs_no_root() -> None:
    with tempfile.TemporaryDirectory() as home:  # other users cannot read the folders of pytest
        os.chmod(home, 0o777)
        few = (*SHORT, "--seeds", "1", "--time", "virtual")
        script = [sys.executable, str(SCRIPT), *few, "--out", f"{home}/out"]
        done = subprocess.run(
            [*AS_NOBODY, *script], env={**os.environ, "HOME": home},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert Path(home, "out", "samples.csv").exists()


def test_a_switch_that_miscounts_is_found_out(tmp_path: Path) -> None:
    count = "arrivals.count("
    faulty = f"if (standard_metadata.ingress_global_timestamp[5:4] != 0) {count}"
    program = faulty_program(tmp_path, "ampm.p4", count, faulty)
    out = tmp_path / "out"
    done = run(*SHORT, "--time", "virtual", "--program", program, "--out", str(out))
    assert done.returncode == 1, done.stdout + done.stderr
    failed = failed_checks(out)
    assert "loss 5 %, step: max loss error per block (packets)" in failed
    assert not any("pulse" in name or "unaccounted" in name for name in failed)
    wrong = {row["segment"] for row in samples(out) if row["measured"] != row["true"]}
    assert wrong == {"s1-s2", "s2-s3"}  # the loss of the whole path comes from departures


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--loss", "150"), "--loss"),
        (("--colour", "red"), "--colour"),
        (("--block-us", "1000"), "power of two"),
        (("--block-us", "32768"), "A + D < L/2"),
        (("--method", "multiplexed", "--block-us", "65536"), "A + D < L/4 - L/32"),
        (("--method", "guess"), "guess"),
        (("--seeds", "0"), "--seeds"),
        (("--rate", "0"), "--rate"),
        (
            ("--rate", "3", "--time", "virtual", "--block-us", "16384"),
            "16384 us have no packet",
        ),
        (("--program", "no/such.p4"), "no/such.p4"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = run(*arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "summary.json").exists()
