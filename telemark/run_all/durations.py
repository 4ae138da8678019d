"""How long experiments take, by what they took before."""

import json
from collections.abc import Sequence

from telemark.results.reference import REAL, REFERENCE
from telemark.run_all.up_to_date import Finished

QUICK_S, FULL_S = 25.0, 90.0  # of an experiment that nobody has timed yet


def expected_s(name: str, given: Sequence[str], finished: Finished) -> float:
    """What it took last with these options; else what the reference took, or a quick one may."""
    last_s = finished.duration_s(name, given)
    if last_s is not None:
        return last_s
    is_quick = "--quick" in given
    folder = REFERENCE / (name if "--time=virtual" in given else name + REAL)
    try:
        full_s = float(json.loads((folder / "summary.json").read_text())["duration_s"])
    except (OSError, KeyError):
        full_s = FULL_S
    return min(full_s, QUICK_S) if is_quick else full_s


def shown(seconds: float) -> str:
    """Minutes and seconds, as `3:07`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
