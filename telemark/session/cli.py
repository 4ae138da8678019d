"""The command line that all experiments share, and what their exit status means."""

import argparse
import contextlib
import dataclasses
import gc
import inspect
import os
import reprlib
import resource
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NoReturn

from minip4.simulator.shared import MAX_THREADS
from minip4.wire.shared import MAX_SNAPLEN
from telemark import REPOSITORY
from telemark.apps.application import INSIDE
from telemark.backends.real import isolation
from telemark.backends.real.scheduling import raise_priority
from telemark.backends.real.targets import bmv2
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import FailedRunError, TestbedError
from telemark.results import docstring, files, index
from telemark.results.provenance import Origin
from telemark.results.report import Report
from telemark.session import artifacts, error_reporting
from telemark.session.emulated_cpu import restart_without_gathers
from telemark.session.progress import Progress
from telemark.session.run import Run, SweepOptions
from telemark.sweep import options as sweeps
from telemark.sweep.run_cache import forget_others
from telemark.traffic.flows import LIMITS

RESULTS = REPOSITORY / "results"
KEPT = "run"  # folder in that of the results
LONGEST_S = LIMITS["after_s"][1]
PASSED, CHECK_FAILED, UNUSABLE, BROKEN = 0, 1, 2, 3  # exit status

Experiment = Callable[[argparse.Namespace, Run], Report | Awaitable[Report]]
RunNetwork = Callable[[Run], int]  # does what a run is for, and returns the exit status


def main(
    script: str,
    description: str | None,
    experiment: Experiment,
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> NoReturn:
    """Run an experiment as a command, and exit.

    `script` is the caller's __file__: its name is the experiment's. `experiment` is called inside
    namespaces of the run's own; what it reports is written below results/ (or --out), and the
    status is 0 if all its checks passed, 1 if one failed or the network kept the run from being
    measured (in one line), 2 for what the user or, in real time, the machine got wrong (in one
    line), and 3, with a traceback, for what the program did: see telemark.session.error_reporting.
    """
    name = Path(script).stem
    if INSIDE in os.environ:
        raise TestbedError(
            f"{Path(script).name} is imported by another process, for what it defines: cli.main() "
            'must stand below `if __name__ == "__main__":`'
        )
    options = _parse(name, description or "", add_options)
    origin = Origin(*docstring.read(description or ""))
    sys.exit(start(name, options, lambda run: _run_experiment(run, options, experiment), origin))


def start(
    name: str, options: argparse.Namespace, run_network: RunNetwork, origin: Origin | None = None
) -> int:
    """Have a run conducted, in the kind of time and the namespaces that it needs.

    `options` has those of add_run_options(), and `interactive`. Returns the exit status, after
    saying why where it is not conduct()'s.
    """
    # What is loaded stays, and what compilers build too: a fifth of a short run went to looking at
    # it again and again, in the hope of garbage.
    gc.freeze()
    gc.set_threshold(10_000)
    try:
        restart_without_gathers()
        options.target = available_target(options.target, options.time)
        check_threads(options.threads, options.time)
        if options.snaplen is not None and not options.keep:
            raise TestbedError("--snaplen: no captures are kept; use it with --keep")
        run = _run_virtual if options.time == "virtual" else _run_real
        status = run(name, options, run_network, origin or Origin())
        signal_number = isolation.end_interrupt()
    except BaseException as error:
        signal_number = isolation.end_interrupt()
        if signal_number is None:
            if not isinstance(error, Exception):
                raise
            return _explain(name, error, with_traceback=options.traceback)
    if signal_number is not None:  # also where its exception became another one
        print(f"\n{name}: interrupted", file=sys.stderr)
        return isolation.SIGNALLED + signal_number
    return status


def _explain(name: str, error: Exception, *, with_traceback: bool) -> int:
    """Print why a run ended, and return the exit status."""
    told = error_reporting.account(error)
    if with_traceback:
        print(told.whole, end="", file=sys.stderr)
    if told.line is not None:
        print(f"{name}: error: {told.line}", file=sys.stderr)
        return CHECK_FAILED if told.is_failed_run else UNUSABLE
    if not with_traceback:
        print(told.short_traceback, end="", file=sys.stderr)
    return BROKEN


def _run_real(
    name: str, options: argparse.Namespace, run_network: RunNetwork, origin: Origin
) -> int:
    """In namespaces of its own: the run is a child of this process, which looks after it."""
    _require_root()
    child, connection = isolation.fork()
    if child:
        return isolation.supervise(name, child, connection, interactive=options.interactive)
    with isolation.inside(connection, interactive=options.interactive) as folder:
        if not options.interactive:
            raise_priority(os.getpid())
        run = Run(
            name, folder, options.seed, options.interactive, options.target, origin=origin
        )  # fmt: skip
        return run_network(run)


def _run_virtual(
    name: str, options: argparse.Namespace, run_network: RunNetwork, origin: Origin
) -> int:
    """Virtual time needs no namespaces, and so no root: the run is this process."""
    isolation.interruptible(look_s=isolation.LOOK_S)
    with isolation.run_folder(name) as folder:
        clock = VirtualClock()
        run = Run(
            name,
            folder,
            options.seed,
            clock=clock,
            progress=Progress(note=clock),
            origin=origin,
            threads=options.threads,
        )
        clock.on_progress = run.progress.refresh
        return run_network(run)


def _run_experiment(run: Run, options: argparse.Namespace, experiment: Experiment) -> int:
    files.make_folder(options.out)  # before the run: what would fail after it is refused
    run.sweep_options = SweepOptions(
        sweeps.jobs(options), options.out / sweeps.KEPT, options.again, options.scheduler
    )
    with aftermath(run, options):
        report = _report_of(run, options, experiment)
        report.write(run.name, options, run.origin)
        forget_others(run.sweep_options, run.name)
        report.show(options.out)
        if options.out.parent == RESULTS:
            print(f"All results: {index.build(RESULTS)}")
    return PASSED if report.passed else CHECK_FAILED


@contextlib.contextmanager
def aftermath(run: Run, options: argparse.Namespace) -> Iterator[None]:
    """Around the work of a run: what was not delivered is told, and --keep keeps what it left."""
    if options.keep:
        files.make_folder(options.out)
        artifacts.check_artifact_folder(options.out / KEPT)
        run.keeps = True
        run.snaplen = options.snaplen or MAX_SNAPLEN
    _allow_many_files()
    try:
        yield
    except BaseException as error:
        _leave(run, options, has_failed=True)
        if isinstance(error, Exception):
            _refuse_excuse(run, options, error)
        raise
    _leave(run, options, has_failed=False)


def _refuse_excuse(run: Run, options: argparse.Namespace, error: Exception) -> None:
    """Raise FailedRunError for an InvalidRunError that the network, not the machine, caused."""
    problem = error_reporting.account(error).problem
    if problem is not None and (options.time == "virtual" or run.drop_report.refused):
        raise FailedRunError(f"run failed: {problem}") from error


def _leave(run: Run, options: argparse.Namespace, *, has_failed: bool) -> None:
    for warning in run.drop_report.warnings():  # which may be why it failed
        run.progress.say(warning)
    if not run.keeps:
        return
    try:
        _keep(run, options)
    except TestbedError as error:
        if not has_failed:
            raise
        run.progress.say(str(error))  # beside what the run failed for


def _keep(run: Run, options: argparse.Namespace) -> None:
    is_virtual = options.time == "virtual"
    offset_ns = None if is_virtual else time.time_ns() - time.monotonic_ns()
    folder = options.out / KEPT
    for problem in artifacts.keep(run.folder, folder, offset_ns):
        run.progress.say(problem)
    run.progress.say(f"Captures and logs in {folder}")


def _report_of(run: Run, options: argparse.Namespace, experiment: Experiment) -> Report:
    """What the experiment reports, and what its networks did not deliver."""
    with run.progress:
        outcome = experiment(options, run)
        if inspect.iscoroutine(outcome):
            outcome = run.clock.run(outcome)
    if not isinstance(outcome, Report):
        raise TestbedError(
            f"the experiment returned {reprlib.repr(outcome)}: expected `return Report(...)` of "
            "telemark.results.report"
        )
    return dataclasses.replace(
        outcome,
        checks=[*outcome.checks, *run.drop_report.checks()],
        drops=[dataclasses.asdict(drop) for drop in run.drop_report.drops],
        capacities=[dataclasses.asdict(capacity) for capacity in run.capacities],
    )


def _allow_many_files() -> None:
    """Captures of a large network are thousands of open files; shells often allow 1,024 at first,
    and as many as anybody asks for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _parse(
    name: str, description: str, add_options: Callable[[argparse.ArgumentParser], None] | None
) -> argparse.Namespace:
    parser = Parser(
        prog=name,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if add_options is not None:
        add_options(parser)
    common = parser.add_argument_group("common options")
    add_run_options(common)
    common.add_argument("--quick", action="store_true", help="a small version, in 30 seconds")
    common.add_argument(
        "--out", type=files.folder, default=RESULTS / name, metavar="DIR",
        help=f"where the results go (default: results/{name})",
    )  # fmt: skip
    common.add_argument(
        "--interactive", action="store_true",
        help="keep each network up with Mininet's command line",
    )  # fmt: skip
    sweeps.add(common)
    options = parser.parse_args()
    options.out = options.out.absolute()
    sweeps.check(parser, options)
    if options.time == "virtual" and options.interactive:
        parser.exit(UNUSABLE, f"{name}: error: --interactive needs --time real\n")
    return options


def add_run_options(common: "argparse._ActionsContainer") -> None:
    """The options of every run, whatever it is for; conduct()'s aftermath() needs `out`, too."""
    common.add_argument(
        "--target", choices=("auto", "bmv2", "minip4"), default="auto",
        help="what runs the P4 programs (default: auto, which is minip4 also where bmv2 is "
        "installed, so that a command means the same on each machine)",
    )  # fmt: skip
    common.add_argument(
        "--time", choices=("real", "virtual"), default="real",
        help="real: Mininet and this machine's clock (default); virtual: an event queue",
    )  # fmt: skip
    common.add_argument(
        "--threads", type=positive_int, default=1, metavar="N",
        help="of each network in virtual time; results are the same (default: %(default)s)",
    )  # fmt: skip
    common.add_argument(
        "--seed", type=natural, default=1, metavar="N",
        help="of everything that is random (default: %(default)s)",
    )  # fmt: skip
    common.add_argument(
        "--keep", action="store_true",
        help="keep captures and logs of the run, in run/ below --out",
    )  # fmt: skip
    common.add_argument(
        "--snaplen", type=_snaplen, metavar="BYTES",
        help="bytes of each frame in the captures of --keep (default: whole frames)",
    )  # fmt: skip
    common.add_argument(
        "--traceback", action="store_true", help="where an error came from, call by call",
    )  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(UNUSABLE, f"{self.prog}: error: {message} (see --help)\n")


def available_target(wanted: str, time: str) -> str:
    """What `--target` means here. Raises TestbedError where that is not to be had."""
    if wanted != "bmv2":
        return "minip4"
    if time == "virtual":
        raise TestbedError("--target bmv2 needs --time real: virtual time is minip4's alone")
    if shutil.which(bmv2.PROGRAM) is None:
        raise TestbedError(
            f"--target bmv2 needs {bmv2.PROGRAM} on PATH: the VM has it (vagrant up), "
            "--target minip4 needs nothing"
        )
    return wanted


def check_threads(threads: int, time: str) -> None:
    """Raises TestbedError for what `--threads` cannot mean."""
    if threads > 1 and time == "real":
        raise TestbedError(
            "--threads needs --time virtual: in real time each switch has a process of its own"
        )
    if threads > MAX_THREADS:
        raise TestbedError(f"--threads {threads}: {MAX_THREADS} at most")


def _require_root() -> None:
    if os.geteuid() != 0:
        raise TestbedError("root is needed for network namespaces: run it with sudo")
    if shutil.which("mnexec") is None:
        raise TestbedError("Mininet is not installed: run ./setup.sh")


# Types of options: argparse turns their ValueErrors into one line and exit status 2.


def add_rate_option(parser: argparse.ArgumentParser, default_pps: int, of: str) -> None:
    """`--rate` of `of`, as in "each flow"."""
    parser.add_argument(
        "--rate", type=positive_int, default=default_pps, metavar="PPS",
        help=f"packets a second of {of} (default: %(default)s)",
    )  # fmt: skip


def add_program_option(parser: argparse.ArgumentParser, default: str) -> None:
    """`--program`: a user's variant of the P4 program that the switches of an experiment run."""
    parser.add_argument(
        "--program", default=default, metavar="P4",
        help="the switches' program: try your own variant (default: %(default)s)",
    )  # fmt: skip


def percentage(text: str) -> float:
    """From 0 to 100."""
    return _number(text, 0, 100, "a percentage from 0 to 100")


def probability(text: str) -> float:
    """From 0 to 1."""
    return _number(text, 0, 1, "a probability from 0 to 1")


def positive_float(text: str) -> float:
    """A number above 0, and finite."""
    value = _number(text, 0, sys.float_info.max, "a number above 0")
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def seconds(text: str) -> float:
    """How long something lasts: above 0, and not longer than traffic can be planned for."""
    what = f"a time above 0 s, up to {LONGEST_S:,.0f} s"
    value = _number(text, 0, LONGEST_S, what)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def not_negative(text: str) -> float:
    """A number from 0, and finite."""
    return _number(text, 0, sys.float_info.max, "a number from 0")


def natural(text: str) -> int:
    """0, 1, 2, ... below 2**63."""
    return _integer(text, 0, "a whole number from 0")


def positive_int(text: str) -> int:
    """1, 2, 3, ... below 2**63."""
    return _integer(text, 1, "a whole number from 1")


def _snaplen(text: str) -> int:
    return _integer(text, 1, f"a whole number from 1 to {MAX_SNAPLEN}", MAX_SNAPLEN)


def power_of_two(text: str) -> int:
    """1, 2, 4, 8, ..."""
    value = _integer(text, 1, "a power of two")
    if value & (value - 1):
        below = 1 << (value.bit_length() - 1)
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a power of two: the nearest are {below} and {2 * below}"
        )
    return value


def _number(text: str, low: float, high: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:  # NaN fails too
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def _integer(text: str, low: int, what: str, high: int = 2**63 - 1) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
