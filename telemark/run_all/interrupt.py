"""First import of run_all: Ctrl-C while it imports, and between experiments, gives one line."""

import os
import signal
from types import FrameType


def _interrupted(number: int, _frame: FrameType | None) -> None:
    os.write(2, b"\nrun_all.sh: interrupted\n")
    os._exit(128 + number)


signal.signal(signal.SIGINT, _interrupted)
