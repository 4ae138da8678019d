"""Handler of Ctrl-C during imports and between experiments. run_all imports this module first."""

import os
import signal
from types import FrameType


def _interrupted(number: int, _frame: FrameType | None) -> None:
    os.write(2, b"\nrun_all.sh: interrupted\n")
    os._exit(128 + number)


signal.signal(signal.SIGINT, _interrupted)
