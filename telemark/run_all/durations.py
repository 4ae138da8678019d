"""Expected durations of experiments, taken from earlier runs."""

import json
from collections.abc import Sequence

from telemark.results.reference import REAL, REFERENCE
from telemark.run_all.up_to_date import FinishedRuns

QUICK_S, FULL_S = 25.0, 90.0  # default durations


def expected_s(name: str, arguments: Sequence[str], finished: FinishedRuns) -> float:
    """Return the duration (s) of the last run with these arguments; if none, of the reference."""
    last_s = finished.duration_s(name, arguments)
    if last_s is not None:
        return last_s
    is_quick = "--quick" in arguments
    folder = REFERENCE / (name if "--time=virtual" in arguments else name + REAL)
    try:
        full_s = float(json.loads((folder / "summary.json").read_text())["duration_s"])
    except (OSError, KeyError):
        full_s = FULL_S
    return min(full_s, QUICK_S) if is_quick else full_s


def minutes_seconds(seconds: float) -> str:
    """Format a duration, e.g. `3:07`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
