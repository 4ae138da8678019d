"""Finished runs are not repeated, unless something on which they depend has changed."""

import argparse
import errno
import importlib.util
import io
import lzma
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import StartExperiment

from telemark import REPOSITORY
from telemark.accounting.drops import DropReport
from telemark.errors import TestbedError
from telemark.results.provenance import P4Source
from telemark.session.run import Run, SweepOptions
from telemark.sweep import plain_data, run_cache
from telemark.sweep.run_cache import RunCache, remove_unused
from telemark.sweep.task import Outcome, Task, deserialize, serialize


async def measure(_setting: object, _run: Run) -> None:
    """Measurement of a run."""


async def another(_setting: object, _run: Run) -> None:
    """A different measurement."""


TASK = Task(
    measure, (0.5, argparse.Namespace(rate=100, out="a", jobs=1)), "example", 1, False, 128, 1
)
PROGRAM = '#include "rate.p4"\nconst bit<8> HERE = RATE;\n'


@dataclass(frozen=True)
class Checkout:
    """A folder with a script that imports a module, and a P4 program that includes a file."""

    folder: Path
    sweep_options: SweepOptions
    said: list[str] = field(default_factory=list)

    def outcome(self) -> Outcome:
        """Return the outcome of a run whose result is a number. The run compiled x.p4."""
        program = P4Source.read(self.folder / "x.p4")
        return Outcome(17, None, [], "", DropReport(), frozenset([program]))

    def find(self, task: Task = TASK) -> Outcome | None:
        """Return the outcome that a new run finds in the cache, or None."""
        run_cache._code_hash.cache_clear()
        run_cache.is_unchanged.cache_clear()
        return self.cache.find(task)

    @property
    def cache(self) -> RunCache:
        return RunCache(self.sweep_options, self.said.append)

    @property
    def file(self) -> Path:
        """Return the only cached file."""
        (path,) = self.sweep_options.cache.iterdir() if self.sweep_options.cache else ()
        return path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    """Checkout with a cached outcome of TASK."""
    texts = {"module.py": "RATE = 1\n", "x.p4": PROGRAM, "rate.p4": "#define RATE 1\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    spec = importlib.util.spec_from_file_location("module_of_a_script", tmp_path / "module.py")
    assert spec is not None
    monkeypatch.setitem(sys.modules, spec.name, importlib.util.module_from_spec(spec))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "example.py")])
    made = Checkout(tmp_path, SweepOptions(cache=tmp_path / ".runs"))
    run_cache._code_hash.cache_clear()
    RunCache(SweepOptions(cache=made.sweep_options.cache), print).add(
        TASK, serialize(made.outcome())
    )  # the outcome of an earlier run
    yield made
    run_cache._code_hash.cache_clear()
    run_cache.is_unchanged.cache_clear()


def test_what_was_done_is_found(checkout: Checkout) -> None:
    assert checkout.find() == checkout.outcome()


def with_options(**changed: object) -> Task:
    options = argparse.Namespace(**{**vars(TASK.setting[1]), **changed})
    return replace(TASK, setting=(TASK.setting[0], options))


@pytest.mark.parametrize(
    "task",
    [replace(TASK, seed=2), replace(TASK, name="other"), replace(TASK, measure=another),
     replace(TASK, setting=(0.25, TASK.setting[1])), with_options(rate=200)],
    ids=["seed", "experiment", "measure", "setting", "options"],
)  # fmt: skip
def test_another_run_is_not_it(task: Task, checkout: Checkout) -> None:
    assert checkout.find(task) is None


@pytest.mark.parametrize(
    "task",
    [replace(TASK, threads=2), with_options(out="b", jobs=2, scheduler="tcp://a:1", again=True)],
    ids=["threads", "options"],
)
def test_what_changes_nothing_makes_no_other_run(task: Task, checkout: Checkout) -> None:
    assert checkout.find(task) is not None


@pytest.mark.parametrize("name", ["module.py", "x.p4", "rate.p4"])
def test_a_change_of_what_it_used_is_noticed(name: str, checkout: Checkout) -> None:
    path = checkout.folder / name
    before = path.read_text()
    path.write_text(before.replace("RATE", "RATE_", 1).replace("_ 1", "_ 2"))
    assert checkout.find() is None
    path.write_text(before)
    assert checkout.find() is not None


def test_a_comment_in_a_program_is_no_change(checkout: Checkout) -> None:
    (checkout.folder / "x.p4").write_text(PROGRAM + "// the same\n")
    assert checkout.find() is not None


def test_the_testbeds_own_code_is_among_what_it_used() -> None:
    import_module("telemark.network")  # as experiments do
    used = run_cache.code_files()
    for name in ("telemark/sweep/task.py", "minip4/simulator/c/channel.c", "minip4/errors.py"):
        assert REPOSITORY / name in used


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def other_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def killed_while_it_wrote(path: Path) -> None:
    half(path)
    path.rename(path.with_name(f".{path.name}.partial"))


@pytest.mark.parametrize("spoil", [half, other_bit, empty, killed_while_it_wrote])
def test_what_is_not_whole_is_not_believed(
    spoil: Callable[[Path], None], checkout: Checkout
) -> None:
    path = checkout.file
    spoil(path)
    assert checkout.find() is None
    if path.exists():
        (line,) = checkout.said
        assert line.startswith(f"warning: {path}: not a cached run (")
        assert line.endswith("; the run is repeated")
    checkout.cache.add(TASK, serialize(checkout.outcome()))
    assert checkout.find() == checkout.outcome()
    remove_unused(checkout.sweep_options, TASK.name)
    assert not checkout.file.name.startswith(".")


class Malicious:
    """Object that executes code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("pack", [bytes, lzma.compress], ids=["plain", "compressed"])
def test_a_pickle_in_the_cache_is_not_executed(
    checkout: Checkout, pack: Callable[[bytes], bytes]
) -> None:
    path = checkout.folder / "executed"
    checkout.file.write_bytes(pack(pickle.dumps(Malicious(path))))
    assert checkout.find() is None
    assert not path.exists()
    assert len(checkout.said) == 1


def test_an_array_of_objects_in_the_cache_is_not_executed(checkout: Checkout) -> None:
    path, file = checkout.folder / "executed", io.BytesIO()
    structure = np.frombuffer(b'["array", 0]', np.uint8)
    np.savez(file, **{plain_data.STRUCTURE: structure, "0": np.array([Malicious(path)])})
    checkout.file.write_bytes(lzma.compress(file.getvalue()))
    assert checkout.find() is None
    assert not path.exists()


def test_arrays_take_little_room() -> None:
    times_ns = np.arange(100_000) * 1_000_000
    data = serialize(Outcome(times_ns, None, [], "", DropReport(), frozenset()))
    assert len(data) < times_ns.nbytes / 3
    assert (deserialize(data).result == times_ns).all()


def test_a_program_belongs_to_the_checkout_that_reads_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = REPOSITORY / "p4src" / "count_min" / "count_min.p4"
    source = P4Source.read(path, ["WIDTH=8"])
    elsewhere = serialize(Outcome(1, None, [], "", DropReport(), frozenset([source])))
    assert deserialize(elsewhere).programs == {source}
    monkeypatch.setattr("telemark.results.provenance.REPOSITORY", tmp_path)
    (moved,) = deserialize(elsewhere).programs
    assert moved.path == tmp_path / path.relative_to(REPOSITORY)
    assert moved.files == {tmp_path / file.relative_to(REPOSITORY) for file in source.files}


def test_again_and_an_edited_script_do_all_anew(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    head = f"""
from telemark.sweep.runs import sweep
async def measure(number, run):
    with open({str(tmp_path / "did")!r}, "a") as file:
        file.write("a run\\n")
"""
    body = "await sweep(measure, [(1,), (2,)], run)\nreturn Report([], [Check('done', 0, 0)])"
    for arguments, edit, runs in (((), "", 2), ((), "", 2), (("--again",), "", 4), ((), "#", 6)):
        done = start_experiment(body, "--time", "virtual", *arguments, head=head + edit)
        output, errors = done.communicate()
        assert done.wait() == 0, output + errors
        assert len((tmp_path / "did").read_text().splitlines()) == runs


def test_a_program_that_changes_during_a_run_is_reported(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    program = tmp_path / "x.p4"
    program.write_text("const bit<8> A = 1;\n")
    head = f"""
from pathlib import Path
from telemark.results.provenance import P4Source
from telemark.sweep.runs import sweep
async def measure(number, run):
    run.origin.programs.add(P4Source.read(Path({str(program)!r})))
    Path({str(program)!r}).write_text("const bit<8> A = 2;")
"""
    body = "await sweep(measure, [(1,)], run)\nreturn Report([], [])"
    done = start_experiment(body, "--time", "virtual", head=head)
    _, errors = done.communicate()
    assert (done.wait(), errors) == (2, (
        f"example: error: {program}: differs from the program of run 1; do not change it during a "
        "run, and update the checkouts of workers\n"
    ))  # fmt: skip


def test_two_experiments_may_have_the_same_folder(checkout: Checkout) -> None:
    """Two experiments may share a folder: if one removes cached runs, the other still works."""
    other = RunCache(SweepOptions(cache=checkout.sweep_options.cache), print)
    assert other.find(TASK) is not None
    remove_unused(checkout.sweep_options, TASK.name)
    other.add(replace(TASK, seed=2), serialize(checkout.outcome()))
    assert checkout.find(replace(TASK, seed=2)) == checkout.outcome()


def test_an_experiment_leaves_the_runs_of_others_in_its_folder(checkout: Checkout) -> None:
    """An experiment removes only its own unused runs from a shared folder.

    The runs of other experiments stay, even those of an experiment whose name begins with the name
    of this experiment.
    """
    others = [replace(TASK, name=name) for name in ("other", "example-2")]
    for task in others:
        RunCache(SweepOptions(cache=checkout.sweep_options.cache), print).add(
            task, serialize(checkout.outcome())
        )
    remove_unused(checkout.sweep_options, TASK.name)  # this experiment used no runs
    assert checkout.find() is None
    assert all(checkout.find(task) for task in others)


def test_a_full_disk_is_one_line_and_leaves_nothing_half(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        path.open("wb").write(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    before = {*checkout.file.parent.iterdir()}
    with pytest.raises(TestbedError, match=r"cannot write: No space left on device$"):
        checkout.cache.add(replace(TASK, seed=2), serialize(checkout.outcome()))
    assert {*checkout.file.parent.iterdir()} == before
