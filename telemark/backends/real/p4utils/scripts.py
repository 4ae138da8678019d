"""Runs unchanged NetworkAPI scripts in p4-utils' environment, inside a run's namespaces."""

import signal
import subprocess
from pathlib import Path

from telemark.backends.real.p4utils.environment import IN_ENV, environment, interpreter
from telemark.errors import TestbedError
from telemark.session.run import Run

ON_MINIP4 = IN_ENV / "on_minip4"
RUNNER = IN_ENV / "run_network.py"
SEED = "TELEMARK_SEED"  # environment variable with the random seed
# The network classes of p4-utils write this setting, for a target that Telemark does not use. The
# setting affects the whole machine, so a file of the run is mounted over it.
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


def run_script(script: Path, run: Run, commands: Path | None = None) -> int:
    """Run a script in its own folder, inside the namespaces of a run; return its exit status.

    `commands` is a file of commands for Mininet's CLI, if the script starts the CLI. Without
    `commands`, the CLI reads the stdin of this process. Raises TestbedError.
    """
    if not script.is_file():
        raise TestbedError(f"no script {script}")
    python = interpreter()
    stand_in = run.folder / HUGE_PAGES.name
    stand_in.write_text("0\n")
    subprocess.run(["mount", "--bind", str(stand_in), str(HUGE_PAGES)], check=True)
    if run.interactive:  # Ctrl-C then ends a command of the CLI, not this process
        signal.signal(signal.SIGINT, lambda *_: None)
    own = [ON_MINIP4] if run.target == "minip4" else []
    # If there are commands, stdin must have no data, because Mininet forwards its input to hosts.
    with subprocess.Popen(
        [python, str(RUNNER), run.target, str(commands or "-"), script.name], cwd=script.parent,
        env=environment(python, *own) | {SEED: str(run.seed)},
        stdin=subprocess.PIPE if commands else None,
    ) as process:  # fmt: skip
        try:
            return process.wait()
        except BaseException:  # without kill(), Popen would wait for a process that does not exit
            process.kill()
            raise
