"""First import of each experiment: restarts the script with the project's own Python.

Users may run `python experiments/...` with any Python version. Therefore this module uses only the
standard library, and no syntax newer than Python 2.7.
"""

import os
import signal
import sys


def _interrupted(number, _frame):
    """Exit without a traceback on Ctrl-C during imports, as the experiment does later."""
    name, _ = os.path.splitext(os.path.basename(sys.argv[0]))
    os.write(2, ("\n" + name + ": interrupted\n").encode())
    os._exit(128 + number)


# Worker processes of a run also import the script: they print nothing.
_MAIN = getattr(sys.modules["__main__"], "__file__", "")  # absolute since Python 3.9
_IS_COMMAND = os.path.abspath(_MAIN) == os.path.abspath(sys.argv[0])
signal.signal(signal.SIGINT, _interrupted if _IS_COMMAND else signal.SIG_DFL)

# realpath() resolves symbolic links
_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_FOLDER = os.path.join(_ROOT, ".venv")
_PYTHON = os.path.join(_FOLDER, "bin", "python")
_READY = os.path.join(_FOLDER, "telemark-ready")  # the last file that setup.sh writes

if not (os.path.exists(_READY) and os.path.exists(_PYTHON)):
    sys.stderr.write(
        os.path.basename(sys.argv[0])
        + ": error: the project's Python environment is missing or incomplete; run "
        + os.path.join(_ROOT, "setup.sh")
        + " first\n"
    )
    sys.exit(2)
if os.path.realpath(sys.prefix) != os.path.realpath(_FOLDER):
    sys.argv.insert(0, _PYTHON)
    os.execv(_PYTHON, sys.argv)
