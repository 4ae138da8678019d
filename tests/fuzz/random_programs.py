"""Runs random programs on random frames, in minip4's engine and in the tests' BMv2 interpreter.

PYTHONPATH=tests/compiler/interpreter python tests/fuzz/random_programs.py --seeds 0 1000

If engine and interpreter disagree, the script prints the seed. It makes the program as small as
possible, and saves it with its JSON and the frames.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bmv2_switch import Switch
from random_program import random_program

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.errors import Minip4Error
from minip4.native import build

Frames = list[tuple[int, bytes]]
GROUPS = {1: [(8, 0)], 2: [(9, 1), (10, 2)], 3: [(11, 5)]}
SESSIONS = {0: [(4, 0)], 1: [(5, 1)], 2: [(6, 1), (7, 2)]}
FRAMES = 60
QUICKLY_BUILT = ("-Og",)


class Disagreement(Exception):
    """Engine and interpreter disagree. str() has both results."""


def random_frames(seed: int) -> Frames:
    """Return frames of all lengths from zero to the longest.

    Small numbers are frequent in them, so that parsers do not stop at the first header.
    """
    rng = random.Random(seed)
    frames = []
    for _ in range(FRAMES):
        length = rng.choice([rng.randrange(20), rng.randrange(200), *[rng.randrange(200, 900)] * 2])
        if rng.randrange(20) == 0:
            length = rng.choice([1500, 9216])
        frame = bytes(
            rng.choice([0, 1, 2, 3, 4, rng.randrange(16), rng.randrange(256), 255])
            for _ in range(length)
        )
        frames.append((rng.randrange(4), frame))
    return frames


def compiled(source: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.p4"
        path.write_text(source)
        return compile_p4(path).bmv2_json


def judge(bmv2_json: dict[str, Any], frames: Frames, *, sanitize: bool = False) -> int:
    """Send the frames to engine and interpreter, and compare.

    Return the number of frames that leave. Raises Disagreement.
    """
    switch, engine = Switch(bmv2_json), Engine(bmv2_json, sanitize=sanitize)
    switch.groups, switch.sessions = GROUPS, SESSIONS
    for number, replicas in GROUPS.items():
        engine.multicast_set(number, replicas)
    for number, replicas in SESSIONS.items():
        engine.mirror_set(number, replicas, 0)
    left = 0
    for i, (port, frame) in enumerate(frames):
        ours, theirs = engine.process(port, frame, i), switch.process(port, frame)
        if sorted(ours) != sorted(theirs):
            raise Disagreement(f"frame {i}, {frame.hex()} into port {port}: engine {text(ours)}, "
                               f"interpreter {text(theirs)}")  # fmt: skip
        left += len(ours)
    compare_state(engine, switch)
    engine.close()
    return left


def compare_state(engine: Engine, switch: Switch) -> None:
    for name, wanted in switch.registers.items():
        found = engine.register_read_all(name)
        if found != wanted:
            raise Disagreement(f"register {name}: engine {found}, interpreter {wanted}")
    for name, cells in switch.counters.items():
        counted = [engine.counter_read(name, i) for i in range(len(cells))]
        if counted != cells:
            raise Disagreement(f"counter {name}: engine {counted}, interpreter {cells}")


def text(left: Frames) -> str:
    return "; ".join(f"{port}: {data.hex()}" for port, data in sorted(left)) or "nothing"


# --- reduction of a finding ----------------------------------------------------------------------


def outcome(source: str, frames: Frames) -> str | None:
    """Return the kind of failure that a program causes, or None if there is no failure."""
    try:
        judge(compiled(source), frames)
    except Disagreement:
        return "disagreement"
    except Minip4Error as error:
        return type(error).__name__
    except Exception as error:
        return f"{type(error).__name__} {traceback.extract_tb(error.__traceback__)[-1].name}"
    return None


def smaller(lines: list[str], is_still: Callable[[list[str]], bool]) -> list[str]:
    """Remove lines without which the failure still occurs. Large blocks of lines come first."""
    size = len(lines) // 2
    while size:
        at = 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            if fewer and is_still(fewer):
                lines = fewer
            else:
                at += size
        size //= 2
    return lines


def shrunk(source: str, frames: Frames) -> tuple[str, Frames]:
    wanted = outcome(source, frames)
    frames = next(([f] for f in frames if outcome(source, [f]) == wanted), frames)
    lines = smaller(source.splitlines(), lambda some: outcome("\n".join(some), frames) == wanted)
    return "\n".join(lines) + "\n", frames


def keep(seed: int, source: str, frames: Frames) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"minip4-judged-{seed}-"))
    (folder / "program.p4").write_text(source)
    (folder / "frames.txt").write_text("".join(f"{port} {data.hex()}\n" for port, data in frames))
    try:
        (folder / "program.json").write_text(json.dumps(compiled(source), indent=1))
    except Minip4Error as error:
        (folder / "refused.txt").write_text(f"{error}\n")
    return folder


def check(seed: int, *, sanitize: bool = False) -> int:
    """Check the random program of a seed.

    Return the number of frames that leave. Raises the failure.
    """
    return judge(compiled(random_program(seed)), random_frames(seed), sanitize=sanitize)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 100), metavar=("FIRST", "END"))
    parser.add_argument("--sanitize", action="store_true",
                        help="ASan and UBSan; preload libasan")  # fmt: skip
    parser.add_argument("--whole", action="store_true", help="do not make findings small")
    args = parser.parse_args()
    findings = left = 0
    build.OPTIMISED = QUICKLY_BUILT
    for seed in range(*args.seeds):
        try:
            left += check(seed, sanitize=args.sanitize)
        except Exception as error:
            findings += 1
            source, frames = random_program(seed), random_frames(seed)
            if not args.whole:
                source, frames = shrunk(source, frames)
            print(f"seed {seed}: {type(error).__name__} {str(error)[:500]}", flush=True)
            print(f"seed {seed}: kept in {keep(seed, source, frames)}", flush=True)
    print(f"{findings} findings; {left} frames left the others")
    return min(findings, 1)


if __name__ == "__main__":
    sys.exit(main())
