"""Command line and exit status of an experiment."""

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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from minip4.simulator.shared import MAX_THREADS
from minip4.wire.shared import MAX_SNAPLEN
from telemark import REPOSITORY
from telemark.apps.application import APPLICATION_PROCESS
from telemark.backends.backend import WIRES
from telemark.backends.real import isolation
from telemark.backends.real.scheduling import RUN_PRIORITY, set_priority
from telemark.backends.real.targets import bmv2
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import FailedRunError, TestbedError, take_notes
from telemark.metrics.folder import MetricsFolder
from telemark.results import docstring, files, index
from telemark.results.provenance import Origin
from telemark.results.report import Report
from telemark.session import artifacts, error_reporting
from telemark.session.emulated_cpu import restart_without_gathers
from telemark.session.progress import Progress
from telemark.session.run import Run, SweepOptions
from telemark.sweep import options as sweeps
from telemark.sweep.run_cache import remove_unused
from telemark.traffic.flows import LIMITS
from telemark.watch.publisher import WatchServer

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_IN_CHECKOUT = (REPOSITORY / "setup.sh").exists()
RESULTS = (REPOSITORY if _IN_CHECKOUT else Path.cwd()) / "results"
METRICS = "metrics"  # subfolder of the run's folder
ARTIFACTS = "run"  # subfolder of the results folder
INCONCLUSIVE = "inconclusive"  # subfolder of the results folder, for inconclusive runs
MAX_DURATION_S = LIMITS["after_s"][1]
PASSED, CHECK_FAILED, UNUSABLE, INTERNAL_ERROR = 0, 1, 2, 3  # exit status

Experiment = Callable[[argparse.Namespace, Run], Report | Awaitable[Report]]
# function that does the work of a run, and returns the exit status
RunNetwork = Callable[[Run], int]


def main(
    script: str,
    description: str | None,
    experiment: Experiment,
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> NoReturn:
    """Run an experiment as a command, and exit.

    `script` is the caller's __file__; the experiment has the same name. The function `experiment`
    runs in the run's own namespaces. Its report is written to results/ (or --out). If the run is
    inconclusive (exit status 1 or 2), the report is written to the subfolder INCONCLUSIVE of the
    results folder.

    Exit status: 0 if all checks passed; 1 if a check failed, or if the network prevented the
    measurement; 2 for a usage error or an unsuitable environment; 3 for an unhandled exception. An
    unhandled exception is reported with a traceback, and any other error in one line: see
    telemark.session.error_reporting.
    """
    name = Path(script).stem
    if APPLICATION_PROCESS in os.environ:
        raise TestbedError(
            f"{Path(script).name}: cli.main() runs when another process imports the script; call "
            'it below `if __name__ == "__main__":`'
        )
    options = _parse(name, description or "", add_options)
    about = docstring.parse(description or "")
    origin = Origin(about.question, about.claim, about.published)
    sys.exit(start(name, options, lambda run: _run_experiment(run, options, experiment), origin))


def start(
    name: str, options: argparse.Namespace, run_network: RunNetwork, origin: Origin | None = None
) -> int:
    """Execute a run: in new namespaces in real time, and in this process in virtual time.

    `options` contains the options of add_run_options() and the option `interactive`. Reports
    errors, and returns the exit status.
    """
    # Excludes loaded modules and compiled programs from garbage collection. Otherwise, garbage
    # collection would take a fifth of the time of a short run.
    gc.freeze()
    gc.set_threshold(10_000)
    try:
        options.target = available_target(options.target, options.time)
        check_threads(options.threads, options.time)
        if options.snaplen is not None and not options.keep:
            raise TestbedError("--snaplen: no effect without --keep; add --keep")
        if options.time == "virtual" and _metrics_port(options) is not None:
            raise TestbedError("--metrics: no effect in virtual time; use --time real")
        restart_without_gathers()
        run = _run_virtual if options.time == "virtual" else _run_real
        status = run(name, options, run_network, origin or Origin())
        signal_number = isolation.end_interrupt()
    except BaseException as error:
        signal_number = isolation.end_interrupt()
        if signal_number is None:
            if not isinstance(error, Exception):
                raise
            return _report_error(name, error, with_traceback=options.traceback)
    # a signal arrived; `error` may be another exception, which replaced that of the signal
    if signal_number is not None:
        print(f"\n{name}: interrupted", file=sys.stderr)
        return isolation.SIGNALLED + signal_number
    return status


def _report_error(name: str, error: Exception, *, with_traceback: bool) -> int:
    """Print the error of a run. Return the exit status for this error."""
    report = error_reporting.error_report(error)
    if with_traceback:
        print(report.traceback, end="", file=sys.stderr)
    if report.line is not None:
        print(f"{name}: error: {report.line}", file=sys.stderr)
        return CHECK_FAILED if report.is_failed_run else UNUSABLE
    if not with_traceback:
        print(report.short_traceback, end="", file=sys.stderr)
    return INTERNAL_ERROR


def _run_real(
    name: str, options: argparse.Namespace, run_network: RunNetwork, origin: Origin
) -> int:
    """Run in new namespaces. The run is a child process, and this process is its supervisor."""
    _require_root()
    server = WatchServer(name, is_virtual=False) if options.watch else None
    child, connection = isolation.fork()
    if child:
        with server or contextlib.nullcontext():
            return isolation.supervise(name, child, connection, interactive=options.interactive)
    port = _metrics_port(options)
    metrics: list[MetricsFolder] = []  # empty until the run has a folder
    with (
        _serve_metrics(port, metrics),
        isolation.inside(connection, interactive=options.interactive) as folder,
    ):
        if port is not None:
            metrics.append(MetricsFolder(folder / METRICS))
        if not options.interactive:
            set_priority(os.getpid(), RUN_PRIORITY)
        run = Run(
            name, folder, options.seed, options.interactive, options.target, _wires(options),
            origin=origin, publisher=server.publisher if server else None,
            metrics=metrics[0] if metrics else None,
        )  # fmt: skip
        return run_network(run)


def _metrics_port(options: argparse.Namespace) -> int | None:
    port: int | None = getattr(options, "metrics", None)  # not all commands have this option
    return port


@contextlib.contextmanager
def _serve_metrics(port: int | None, folders: Sequence[MetricsFolder]) -> Iterator[None]:
    """Serve the metrics in these folders. It must be called before the namespaces of the run exist.

    None: no endpoint.
    """
    if port is None:
        yield
        return
    # takes 0.05 s, which runs without --metrics do not need
    from telemark.metrics.prometheus import Endpoint  # noqa: PLC0415

    def collect() -> "Iterable[Metric]":
        return chain.from_iterable(each.collect() for each in folders)

    with contextlib.closing(Endpoint("127.0.0.1", port, collect)) as endpoint:
        print(f"Metrics: http://127.0.0.1:{endpoint.port}/metrics", flush=True)
        yield


def _wires(options: argparse.Namespace) -> str:
    """Return what carries frames between switches.

    At Mininet's command line, and in networks of other tools, users may look at the interfaces.
    """
    default = "veth" if options.interactive else "memory"
    return getattr(options, "wires", "veth") or default


def _run_virtual(
    name: str, options: argparse.Namespace, run_network: RunNetwork, origin: Origin
) -> int:
    """Run in this process. Virtual time needs no namespaces and no root."""
    isolation.interruptible(look_s=isolation.LOOK_S)
    with contextlib.ExitStack() as exit_stack:
        folder = exit_stack.enter_context(isolation.run_folder(name))
        publisher = None
        if options.watch:
            server = exit_stack.enter_context(WatchServer(name, is_virtual=True))
            publisher = server.publisher
        clock = VirtualClock()
        run = Run(
            name,
            folder,
            options.seed,
            clock=clock,
            progress=Progress(note=clock),
            origin=origin,
            threads=options.threads,
            publisher=publisher,
        )
        clock.on_progress = run.progress.refresh
        return run_network(run)


def _run_experiment(run: Run, options: argparse.Namespace, experiment: Experiment) -> int:
    files.make_folder(options.out)  # report an unusable folder before the run, not after it
    run.sweep_options = SweepOptions(
        sweeps.jobs(options), options.out / sweeps.CACHE_FOLDER, options.again, options.scheduler
    )
    with aftermath(run, options):
        report = _report_of(run, options, experiment)
        if report.inconclusive:
            _report_inconclusive(report, run, options)
        report.write(run.name, options, run.origin)
        _remove_inconclusive(options.out)
        remove_unused(run.sweep_options, run.name)
        report.show(options.out)
        if options.out.parent == RESULTS:
            print(f"All results: {index.build(RESULTS)}")
    return PASSED if report.passed else CHECK_FAILED


def _report_inconclusive(report: Report, run: Run, options: argparse.Namespace) -> NoReturn:
    """Print the report and write it to a subfolder of the results. Then raise the reason."""
    folder = options.out / INCONCLUSIVE
    files.make_folder(folder)
    report.write(run.name, argparse.Namespace(**{**vars(options), "out": folder}), run.origin)
    report.show(folder)
    raise run.inconclusive[0]


def _remove_inconclusive(results: Path) -> None:
    """Remove the report of an earlier inconclusive run."""
    if (results / INCONCLUSIVE / "summary.json").is_file():
        shutil.rmtree(results / INCONCLUSIVE)


@contextlib.contextmanager
def aftermath(run: Run, options: argparse.Namespace) -> Iterator[None]:
    """After the work of a run, report dropped packets. With --keep, store the files of the run."""
    if options.keep:
        files.make_folder(options.out)
        artifacts.check_artifact_folder(options.out / ARTIFACTS)
        run.keeps = True
        run.snaplen = options.snaplen or MAX_SNAPLEN
    _allow_many_files()
    try:
        yield
    except BaseException as error:
        _report_drops_and_keep(run, options, has_failed=True)
        if isinstance(error, Exception):
            _raise_if_failed_run(run, options, error)
        raise
    _report_drops_and_keep(run, options, has_failed=False)


def _raise_if_failed_run(run: Run, options: argparse.Namespace, error: Exception) -> None:
    """If the network, not the machine, caused an InvalidRunError, raise a FailedRunError."""
    problem = error_reporting.error_report(error).problem
    if problem is not None and (options.time == "virtual" or run.drop_report.rejected):
        raise FailedRunError(f"run failed: {problem}") from error


def _report_drops_and_keep(run: Run, options: argparse.Namespace, *, has_failed: bool) -> None:
    for warning in run.drop_report.warnings():  # a warning may explain a failure
        run.progress.say(warning)
    if not run.keeps:
        return
    try:
        _keep(run, options)
    except TestbedError as error:
        if not has_failed:
            raise
        run.progress.say(str(error))  # the error of the run is reported, too


def _keep(run: Run, options: argparse.Namespace) -> None:
    is_virtual = options.time == "virtual"
    offset_ns = None if is_virtual else time.time_ns() - time.monotonic_ns()
    folder = options.out / ARTIFACTS
    for problem in artifacts.keep(run.folder, folder, offset_ns):
        run.progress.say(problem)
    run.progress.say(f"Captures and logs: {folder}")


def _report_of(run: Run, options: argparse.Namespace, experiment: Experiment) -> Report:
    """Run the experiment.

    Return its report, to which the dropped packets of its networks are added.
    """
    try:
        with run.progress, take_notes(run.inconclusive):
            outcome = experiment(options, run)
            if inspect.iscoroutine(outcome):
                outcome = run.clock.run(outcome)
        if not isinstance(outcome, Report):
            raise TestbedError(
                f"experiment: returned {reprlib.repr(outcome)}; expected `return Report(...)` "
                "(telemark.results.report)"
            )
    except Exception as error:
        # the cause that made the run inconclusive may also have caused this error
        if run.inconclusive:
            raise run.inconclusive[0] from error
        raise
    return dataclasses.replace(
        outcome,
        checks=[*outcome.checks, *run.drop_report.checks()],
        drops=[dataclasses.asdict(drop) for drop in run.drop_report.drops],
        capacities=[dataclasses.asdict(capacity) for capacity in run.capacities],
        inconclusive=[error.problem for error in run.inconclusive],
    )


def _allow_many_files() -> None:
    """Raise the limit of open files to the maximum. Large networks have thousands of captures."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


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
    common.add_argument("--quick", action="store_true", help="short version, at most 30 seconds")
    common.add_argument(
        "--out", type=files.folder, default=RESULTS / name, metavar="DIR",
        help=f"results directory (default: results/{name})",
    )  # fmt: skip
    common.add_argument(
        "--interactive", action="store_true",
        help="open Mininet's command line before each network ends",
    )  # fmt: skip
    common.add_argument(
        "--wires", choices=WIRES,
        help="what carries frames between switches in real time: memory, or veth pairs, at which "
        "programs like tcpdump see them (default: memory; with --interactive: veth)",
    )  # fmt: skip
    sweeps.add(common)
    options = parser.parse_args()
    options.out = options.out.absolute()
    sweeps.check(parser, options)
    if options.time == "virtual" and options.wires:
        parser.error("--wires: no effect in virtual time; use --time real")
    if options.target == "bmv2" and options.wires:
        parser.error("--wires: no effect on bmv2; use --target minip4")
    if options.time == "virtual" and options.interactive:
        parser.exit(UNUSABLE, f"{name}: error: --interactive: needs --time real\n")
    return options


def add_run_options(common: "argparse._ActionsContainer") -> None:
    """Add the options that every run has."""
    common.add_argument(
        "--target", choices=("auto", "bmv2", "minip4"), default="auto",
        help="P4 target; auto is always minip4 (default: %(default)s)",
    )  # fmt: skip
    common.add_argument(
        "--time", choices=("real", "virtual"), default="real",
        help="run mode: Mininet in real time, or a simulation in virtual time "
        "(default: %(default)s)",
    )  # fmt: skip
    common.add_argument(
        "--threads", type=positive_int, default=1, metavar="N",
        help="threads per network in virtual time; no effect on results (default: %(default)s)",
    )  # fmt: skip
    common.add_argument(
        "--seed", type=natural, default=1, metavar="N",
        help="random seed (default: %(default)s)",
    )  # fmt: skip
    common.add_argument(
        "--keep", action="store_true",
        help="keep captures and logs of the run in the subdirectory run of --out",
    )  # fmt: skip
    common.add_argument(
        "--snaplen", type=_snaplen, metavar="BYTES",
        help="bytes of each frame in the captures of --keep (default: whole frames)",
    )  # fmt: skip
    common.add_argument(
        "--watch", action="store_true", help="show the running network on a local web page",
    )  # fmt: skip
    common.add_argument(
        "--traceback", action="store_true", help="print the full traceback of an error",
    )  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line. It does not print the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(UNUSABLE, f"{self.prog}: error: {message} (see --help)\n")


def available_target(wanted: str, time: str) -> str:
    """Return the target that `--target` selects.

    Raises TestbedError if the target is not available.
    """
    if wanted != "bmv2":
        return "minip4"
    if time == "virtual":
        raise TestbedError("--target bmv2: not available in virtual time; use --time real")
    if shutil.which(bmv2.PROGRAM) is None:
        raise TestbedError(
            f"--target bmv2: {bmv2.PROGRAM} is not on PATH; use the VM (vagrant up), or --target "
            "minip4"
        )
    return wanted


def require_time(options: argparse.Namespace, time: str, reason: str) -> None:
    """Raise TestbedError unless the run mode is `time`. `reason` is a part of the message."""
    if options.time != time:
        raise TestbedError(f"--time {options.time}: {reason}; use --time {time}")


def require_minip4(options: argparse.Namespace, reason: str) -> None:
    """Raise TestbedError if the target is bmv2. `reason` is a part of the message."""
    if options.target == "bmv2":
        raise TestbedError(f"--target bmv2: {reason}; use --target minip4")


def check_threads(threads: int, time: str) -> None:
    """Raise TestbedError for an invalid `--threads`."""
    if threads > 1 and time == "real":
        raise TestbedError(
            "--threads: no effect in real time, where switches use all CPUs; use --time virtual"
        )
    if threads > MAX_THREADS:
        raise TestbedError(f"--threads {threads}: expected at most {MAX_THREADS}")


def _require_root() -> None:
    if os.geteuid() != 0:
        raise TestbedError("network namespaces need root: run it with sudo")
    if shutil.which("mnexec") is None:
        raise TestbedError("Mininet is not installed: run ./setup.sh")


# Types of options. If a type raises ValueError, argparse prints one line and exits with status 2.


def add_rate_option(parser: argparse.ArgumentParser, default_pps: int, of: str) -> None:
    """Add `--rate`, in packets/s.

    `of` completes the help text, e.g. "each flow".
    """
    parser.add_argument(
        "--rate", type=positive_int, default=default_pps, metavar="PPS",
        help=f"packets/s of {of} (default: %(default)s)",
    )  # fmt: skip


def add_program_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add `--program`: the user's program then replaces the P4 program of an experiment."""
    parser.add_argument(
        "--program", default=default, metavar="P4",
        help="P4 program of the switches (default: %(default)s)",
    )  # fmt: skip


def add_metrics_option(parser: "argparse._ActionsContainer") -> None:
    """Add `--metrics`, for commands whose collectors publish metrics in Run.metrics."""
    parser.add_argument(
        "--metrics", type=_tcp_port, metavar="PORT",
        help="TCP port at 127.0.0.1 for Prometheus metrics, in real time (default: none)",
    )  # fmt: skip


def percentage(text: str) -> float:
    """Parse a percentage from 0 to 100."""
    return _number(text, 0, 100, "a percentage from 0 to 100")


def probability(text: str) -> float:
    """Parse a probability from 0 to 1."""
    return _number(text, 0, 1, "a probability from 0 to 1")


def positive_float(text: str) -> float:
    """Parse a finite number above 0."""
    value = _number(text, 0, sys.float_info.max, "a number above 0")
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def seconds(text: str) -> float:
    """Parse a duration: above 0 s, and at most the maximum duration of traffic."""
    expected = f"a time above 0 s, up to {MAX_DURATION_S:,.0f} s"
    value = _number(text, 0, MAX_DURATION_S, expected)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
    return value


def not_negative(text: str) -> float:
    """Parse a finite number from 0."""
    return _number(text, 0, sys.float_info.max, "a number from 0")


def natural(text: str) -> int:
    """Parse a whole number from 0, below 2**63."""
    return _integer(text, 0, "a whole number from 0")


def positive_int(text: str) -> int:
    """Parse a whole number from 1, below 2**63."""
    return _integer(text, 1, "a whole number from 1")


def _snaplen(text: str) -> int:
    return _integer(text, 1, f"a whole number from 1 to {MAX_SNAPLEN}", MAX_SNAPLEN)


def _tcp_port(text: str) -> int:
    return _integer(text, 0, "a TCP port (0: any)", 0xFFFF)


def power_of_two(text: str) -> int:
    """Parse a power of two."""
    value = _integer(text, 1, "a power of two")
    if value & (value - 1):
        below = 1 << (value.bit_length() - 1)
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a power of two: the nearest are {below} and {2 * below}"
        )
    return value


def _number(text: str, low: float, high: float, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:  # also rejects NaN
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
    return value


def _integer(text: str, low: int, expected: str, high: int = 2**63 - 1) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
    return value
