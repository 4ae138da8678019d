"""Programs that are not part of Telemark: the user fetches them, and names their folder."""

import argparse
import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from minip4.compiler import CompiledProgram
from telemark import programs
from telemark.results.provenance import P4Source
from telemark.session.run import Run


def folder_with(text: str, files: Sequence[str], sources: str) -> Path:
    """Parse the value of an option: a folder with files of published programs.

    `sources` says where the files come from. Raises argparse.ArgumentTypeError.
    """
    if not text:
        raise argparse.ArgumentTypeError(f"required; put into FOLDER {sources}")
    folder = Path(text).absolute()
    for name in files:
        if not (folder / name).is_file():
            raise argparse.ArgumentTypeError(f"{folder} has no {name}; put there {sources}")
    return folder


def compile_fetched(path: str | Path, macros: Mapping[str, int], run: Run) -> CompiledProgram:
    """Compile a published program without printing its warnings, which are for its authors."""
    (source,) = programs.sources(["s1"], path, macros).values()
    if source not in run.programs:
        with contextlib.redirect_stderr(io.StringIO()):
            run.programs[source] = programs.compiled(source)
        run.origin.programs |= {P4Source.read(source.path, source.defines)}
    return run.programs[source]
