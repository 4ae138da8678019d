"""Copies of captures and logs in the results (--keep). Captures get wall-clock times."""

import shutil
from pathlib import Path

from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.results.files import give_to_caller

ABOUT = "about.txt"  # file that marks a folder as one that the next run may replace


def check_artifact_folder(folder: Path) -> None:
    """Raise TestbedError if the folder exists and was not written by an earlier run."""
    if folder.exists() and not (folder / ABOUT).is_file():
        raise TestbedError(f"--keep: {folder} is not from an earlier run; move or remove it")


def keep(run: Path, folder: Path, offset_ns: int | None) -> list[str]:
    """Copy the files of a run into `folder`; return a list of problems.

    Files of an earlier run are replaced.

    `offset_ns` is added to the times of captures. In virtual time it is None, and the times are not
    changed. If the disk is full, raises TestbedError and leaves no files.
    """
    check_artifact_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return _copy(run, folder, offset_ns)
    except OSError as error:  # the disk is full
        shutil.rmtree(folder, ignore_errors=True)
        raise TestbedError(f"--keep: cannot write {folder}: {error.strerror}") from None


def _copy(run: Path, folder: Path, offset_ns: int | None) -> list[str]:
    folder.mkdir(parents=True)
    clock = "virtual time, starting at 1 s" if offset_ns is None else "wall-clock time"
    (folder / ABOUT).write_text(
        f"Captures and logs of a run, kept by --keep. Times in captures: {clock}.\n"
    )
    problems = []
    # only the folders of networks, not files directly in the run's folder
    for source in sorted(run.glob("*/**/*")):
        if not source.is_file() or source.relative_to(run).parts[0] == "tmp":
            continue
        target = folder / source.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if source.suffix == ".pcap" and offset_ns is not None:
                pcap.shift(source, target, offset_ns)
            else:
                shutil.copyfile(source, target)
        # e.g. an incomplete capture, because the switch was killed
        except TestbedError as error:
            shutil.copyfile(source, target)
            problems.append(f"{error}; its times are relative to the boot of this machine")
    for path in (folder, *folder.rglob("*")):
        give_to_caller(path)
    return problems
