"""Captures and logs that outlive their run, with the time of day for whoever opens them."""

import shutil
from pathlib import Path

from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.results.files import give_to_caller

ABOUT = "about.txt"  # marks a folder as one that the next run may replace


def check_artifact_folder(folder: Path) -> None:
    """Raise TestbedError where something else lies there, which is not to be removed."""
    if folder.exists() and not (folder / ABOUT).is_file():
        raise TestbedError(f"--keep: {folder} is not of an earlier run: move it away")


def keep(run: Path, folder: Path, offset_ns: int | None) -> list[str]:
    """Copy a run's files into `folder`, in place of an earlier run's; return what went wrong.

    `offset_ns` is added to the times of captures; None: they are virtual, and stay. Raises
    TestbedError where there is no room for them: then none of them is there.
    """
    check_artifact_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return _copy(run, folder, offset_ns)
    except OSError as error:  # the disk is full
        shutil.rmtree(folder, ignore_errors=True)
        raise TestbedError(f"--keep: {folder} cannot be written: {error.strerror}") from None


def _copy(run: Path, folder: Path, offset_ns: int | None) -> list[str]:
    folder.mkdir(parents=True)
    clock = "virtual: they begin at 1 s" if offset_ns is None else "the time of day"
    (folder / ABOUT).write_text(
        f"A run's captures and logs, by --keep. Times of captures: {clock}.\n"
    )
    problems = []
    for source in sorted(run.glob("*/**/*")):  # networks' folders; beside them lies the run's own
        if not source.is_file() or source.relative_to(run).parts[0] == "tmp":
            continue
        target = folder / source.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if source.suffix == ".pcap" and offset_ns is not None:
                pcap.shift(source, target, offset_ns)
            else:
                shutil.copyfile(source, target)
        except TestbedError as error:  # of a switch that was killed
            shutil.copyfile(source, target)
            problems.append(f"{error}; its times are those since this machine started")
    for path in (folder, *folder.rglob("*")):
        give_to_caller(path)
    return problems
