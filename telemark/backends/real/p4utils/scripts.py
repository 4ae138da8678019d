"""Scripts of p4-utils' NetworkAPI, as they are: in p4-utils' environment, in a run's namespaces."""

import signal
import subprocess
from pathlib import Path

from telemark.backends.real.p4utils.environment import THERE, environment, interpreter
from telemark.errors import TestbedError
from telemark.session.run import Run

ON_MINIP4 = THERE / "on_minip4"
RUNNER = THERE / "run_network.py"
SEED = "TELEMARK_SEED"  # environment variable: that of all dice
# A setting of the whole machine, which p4-utils' networks write for another target's sake.
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


def run_script(script: Path, run: Run, commands: Path | None = None) -> int:
    """Run a script to its end, in its own folder, as p4-utils' users do; return its exit status.

    To be called inside the namespaces of a run in real time. `commands` are lines for Mininet's
    command line, where the script starts it; without, it reads this process's stdin. Raises
    TestbedError.
    """
    if not script.is_file():
        raise TestbedError(f"there is no script {script}")
    python = interpreter()
    stand_in = run.folder / HUGE_PAGES.name
    stand_in.write_text("0\n")
    subprocess.run(["mount", "--bind", str(stand_in), str(HUGE_PAGES)], check=True)
    if run.interactive:  # Ctrl-C ends a command there, and not this process
        signal.signal(signal.SIGINT, lambda *_: None)
    own = [ON_MINIP4] if run.target == "minip4" else []
    # With commands, a stdin that stays silent: Mininet hands what it reads there to hosts.
    with subprocess.Popen(
        [python, str(RUNNER), run.target, str(commands or "-"), script.name], cwd=script.parent,
        env=environment(python, *own) | {SEED: str(run.seed)},
        stdin=subprocess.PIPE if commands else None,
    ) as process:  # fmt: skip
        try:
            return process.wait()
        except BaseException:  # Popen would wait for a process that nobody has asked to end
            process.kill()
            raise
