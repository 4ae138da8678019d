"""Experiments as tests need them: run as commands, or loaded as modules."""

import importlib
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXPERIMENTS / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def module(name: str) -> ModuleType:
    """An experiment's module. What it imports first is for commands: it sets what Ctrl-C does."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, handler)
