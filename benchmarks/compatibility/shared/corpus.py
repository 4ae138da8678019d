"""Measurement of conformance.py: compiles and runs each file of a corpus in its own process."""

import contextlib
import difflib
import enum
import json
import multiprocessing
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format  # type: ignore[import-untyped]

from minip4.compiler import compile_p4
from minip4.compiler.errors import P4Error
from minip4.compiler.p4info.text import p4info_text
from minip4.engine.engine import Engine
from minip4.errors import Minip4Error, ToolchainError
from minip4.stf.script import run_stf

_PROCESSES = multiprocessing.get_context("forkserver")
_V1MODEL = re.compile(r'#\s*include\s*[<"]([^>"]*/)?v1model\.p4[>"]|^V1Switch\s*\(', re.MULTILINE)
_OWN_ARCHITECTURE = re.compile(r"\bpackage\s+V1Switch\b")


class Outcome(enum.Enum):
    """Last stage that a program reached."""

    RUNS = "compiled to machine code"
    REFUSED = "rejected with a source location"
    UNLOCATED = "rejected without a source location"
    C_ERROR = "compiled to C that the C compiler rejected"
    TRACEBACK = "ended in a traceback"
    HUNG = "timed out"
    DIED = "crashed the process"


@dataclass(frozen=True, slots=True)
class Task:
    """One P4 program, or one BMv2 JSON file of p4c, with expected results."""

    name: str
    path: Path
    is_compiled: bool = False  # compiled by p4c for v1model
    must_be_refused: bool = False
    script: Path | None = None  # STF script of the program
    golden: Path | None = None  # expected P4Info (golden file)
    wanted_lines: tuple[int, ...] = ()  # line numbers of the errors of p4c


@dataclass(frozen=True, slots=True)
class Result:
    task: Task
    outcome: Outcome
    reason: str = ""  # first line of the error, if any
    # result of the STF script: None (no script), "" (passed), or the failure
    stf: str | None = None
    # comparison with the golden file: None (no such file), "" (equal), or the first difference
    p4info: str | None = None
    is_same_text: bool = False
    line: int | None = None  # line number of the error, if it has a source location


def programs(p4c: Path) -> Iterator[Task]:
    """Yield all test programs of a p4c checkout."""
    testdata = p4c / "testdata"
    for path in sorted(testdata.glob("*/**/*.p4")):
        top = path.relative_to(testdata).parts[0]
        if top.endswith("_outputs"):  # these folders contain what p4c prints after its passes
            continue
        text = path.read_text(errors="replace")
        is_v1model = bool(_V1MODEL.search(text)) and not _OWN_ARCHITECTURE.search(text)
        outputs = testdata / f"{top}_outputs" / path.relative_to(testdata / top).parent
        golden = outputs / f"{path.name}.p4info.txtpb"
        # If the folder of p4c's outputs lacks the file, the file is only a part of a program.
        is_good = is_v1model and top == "p4_16_samples" and (outputs / path.name).exists()
        yield Task(
            str(path.relative_to(testdata)),
            path,
            is_good,
            must_be_refused=_must_be_refused(top, text, is_v1model),
            script=_existing(path.with_suffix(".stf")) if is_good else None,
            golden=_existing(golden) if is_good else None,
            wanted_lines=_lines(outputs / f"{path.name}-stderr", path.name),
        )


def json_files(behavioral_model: Path) -> Iterator[Task]:
    """Yield the BMv2 JSON files of behavioral-model's tests. p4c made most of these files."""
    for path in sorted(behavioral_model.glob("targets/simple_switch*/tests/testdata/*.json")):
        yield Task(str(path.relative_to(behavioral_model)), path)


def _must_be_refused(folder: str, text: str, is_v1model: bool) -> bool:
    """Return whether p4c rejects a program for an error in P4-16 or v1model."""
    if folder == "p4_16_bmv_errors":
        return is_v1model
    included = re.findall(r'#\s*include\s*[<"]([^>"]+)', text)
    targets = [name for name in included if "psa" in name or "pna" in name]
    return folder == "p4_16_errors" and not targets


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


def _lines(messages: Path, program: str) -> tuple[int, ...]:
    if not messages.exists():
        return ()
    found = re.findall(re.escape(program) + r"\((\d+)\)", messages.read_text(errors="replace"))
    return tuple(map(int, found))


def measure(
    work: Sequence[Task], workers: int, limit_s: float, show: Callable[[Result], None]
) -> list[Result]:
    """Run all tasks with `workers` processes in parallel; call `show` with each result."""
    _PROCESSES.set_forkserver_preload([__name__])
    results = []
    with ThreadPoolExecutor(workers) as threads:
        try:
            for done in as_completed([threads.submit(_in_a_process, t, limit_s) for t in work]):
                results.append(done.result())
                show(results[-1])
        finally:
            threads.shutdown(cancel_futures=True)  # after an interrupt, skip the remaining tasks
    return sorted(results, key=lambda result: result.task.name)


def _in_a_process(task: Task, limit_s: float) -> Result:
    """Run a task in its own process, because a program may hang or crash the process."""
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_send, args=(task, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if ours.poll(limit_s):
            result: Result = ours.recv()
            return result
        return Result(task, Outcome.HUNG, f"more than {limit_s:g} s")
    except EOFError:
        process.join()
        return Result(task, Outcome.DIED, f"exit status {process.exitcode}")
    finally:
        process.kill()
        process.join()
        ours.close()


def _send(task: Task, connection: Connection) -> None:
    try:
        result = _json_result(task) if task.path.suffix == ".json" else _program_result(task)
    except Exception as error:  # any exception of the compiler or engine is a result of the task
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        result = Result(task, Outcome.TRACEBACK, " ".join(reason.split())[:300])
    with contextlib.suppress(BrokenPipeError):  # the reader has exited after an interrupt
        connection.send(result)


def _json_result(task: Task) -> Result:
    try:
        Engine(json.loads(task.path.read_text())).close()
    except ToolchainError as error:
        return Result(task, Outcome.C_ERROR, _first_line(error))
    except Minip4Error as error:
        return Result(task, Outcome.UNLOCATED, _first_line(error))
    return Result(task, Outcome.RUNS)


def _program_result(task: Task) -> Result:
    failed: dict[str, Any] = {
        "stf": None if task.script is None else "does not compile",
        "p4info": None if task.golden is None else "does not compile",
    }
    try:
        compiled = compile_p4(task.path)
    except P4Error as error:
        line = error.source.line
        reason = f"line {line}: {error.message}"
        return Result(task, Outcome.REFUSED, reason, line=line, **failed)
    except Minip4Error as error:
        return Result(task, Outcome.UNLOCATED, _first_line(error), **failed)
    difference, is_same_text = _compare(compiled.p4info, task.golden)
    given: dict[str, Any] = {"p4info": difference, "is_same_text": is_same_text}
    try:
        engine = Engine(json.loads(json.dumps(compiled.bmv2_json)))
    except ToolchainError as error:
        return Result(task, Outcome.C_ERROR, _first_line(error), failed["stf"], **given)
    except Minip4Error as error:
        return Result(task, Outcome.UNLOCATED, _first_line(error), failed["stf"], **given)
    with_script = None if task.script is None else _run_script(engine, task.script)
    engine.close()
    return Result(task, Outcome.RUNS, "", with_script, **given)


def _run_script(engine: Engine, script: Path) -> str:
    try:
        return "; ".join(run_stf(engine, script))
    except Minip4Error as error:
        return _first_line(error)


def _compare(message: p4i.P4Info, golden: Path | None) -> tuple[str | None, bool]:
    """Return the first difference from the golden file, if any, and whether the texts are equal."""
    if golden is None:
        return None, False
    text = golden.read_text()
    is_same_text = p4info_text(message).strip() == text.strip()
    if text_format.Parse(text, p4i.P4Info()) == message:
        return "", is_same_text
    compared = difflib.ndiff(text.splitlines(), p4info_text(message).splitlines())
    changed = [" ".join(line.split()) for line in compared if line[0] in "+-"]
    return "; ".join(changed[:4]), is_same_text


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
