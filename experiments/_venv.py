"""First import of each experiment: goes on under the project's own Python, whatever started it.

Users type `python experiments/...`, and that may be any Python, of any age: so only the standard
library here, and nothing newer than Python 2.7 knows.
"""

import os
import signal
import sys


def _interrupted(number, _frame):
    """Ctrl-C during the imports says what a later one does: no traceback."""
    name, _ = os.path.splitext(os.path.basename(sys.argv[0]))
    os.write(2, ("\n" + name + ": interrupted\n").encode())
    os._exit(128 + number)


# Processes that a run starts import the script, too: of them nothing is to be said.
_MAIN = getattr(sys.modules["__main__"], "__file__", "")  # absolute since Python 3.9
_IS_COMMAND = os.path.abspath(_MAIN) == os.path.abspath(sys.argv[0])
signal.signal(signal.SIGINT, _interrupted if _IS_COMMAND else signal.SIG_DFL)

_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # links lead here
_FOLDER = os.path.join(_ROOT, ".venv")
_PYTHON = os.path.join(_FOLDER, "bin", "python")
_READY = os.path.join(_FOLDER, "telemark-ready")  # the last thing that setup.sh writes

if not (os.path.exists(_READY) and os.path.exists(_PYTHON)):
    sys.stderr.write(
        os.path.basename(sys.argv[0])
        + ": error: the project's Python environment is missing or half made: run "
        + os.path.join(_ROOT, "setup.sh")
        + " first\n"
    )
    sys.exit(2)
if os.path.realpath(sys.prefix) != os.path.realpath(_FOLDER):
    sys.argv.insert(0, _PYTHON)
    os.execv(_PYTHON, sys.argv)
