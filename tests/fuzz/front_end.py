"""Fuzzes the compiler. It must compile a text, or reject it in one line with a location.

python tests/fuzz/front_end.py --seconds 600        (guided by coverage: pip install atheris)
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
LIMIT_S = 20.0
"""Of CPU time for one text: our largest program takes a twentieth of it."""

PIECES = [
    *("{", "}", "(", ")", "<", ">", "[", "]", ",", ";", ":", ".", "=", "?", "-", "++", "..", "&&&"),
    *("8w3", "999", "_", "...", "{#}", "bit<8>", "tuple<", "error", "this", "default", "const"),
    *("apply", "table", "header", "T", "@x(", '"s"', "in", "out", "exit", "void", "string", "int"),
    *(
        "select",
        "#if",
        "#",
        "\\",
        "/*",
        "x",
        "for",
        "switch",
        "extern",
        "varbit<8>",
        "header_union",
    ),
    *("register", "isValid()", "int<8>", "0", "1w0", "|+|", ">>", "enum", "state", "transition"),
]


class Finding(Exception):
    """A text that the compiler neither compiles nor rejects correctly. str() has its path."""


def programs() -> list[str]:
    """Return the texts to mutate: the programs of this repository, without files they include."""
    folders = (REPOSITORY / "p4src", REPOSITORY / "tests", REPOSITORY / "benchmarks")
    found = sorted(path for folder in folders for path in folder.rglob("*.p4"))
    return [path.read_text() for path in found if "V1Switch(" in path.read_text()]


def words_of(text: str) -> list[str]:
    """Split a text into words. The concatenation of these words is the text."""
    return re.findall(r"\w+|\s+|[^\w\s]", text)


def mutate(words: list[str], rng: random.Random) -> str:
    """Return the text with a few words deleted, doubled, swapped or replaced."""
    mutated = list(words)
    own = [i for i, word in enumerate(words) if not word.isspace()]
    for _ in range(rng.choice([1, 1, 2, 3]) if own else 0):
        i, j = rng.choice(own), rng.choice(own)
        change = rng.choice(["drop", "double", "swap", "copy", "replace"])
        if change == "swap":
            mutated[i], mutated[j] = mutated[j], mutated[i]
        else:
            mutated[i] = {
                "drop": "",
                "double": f"{words[i]} {words[i]}",
                "copy": words[j],
                "replace": f" {rng.choice(PIECES)} ",
            }[change]
    return "".join(mutated)


def compile_text(text: str, folder: Path) -> bool:
    """Return whether the compiler accepts a text.

    Raise Finding if the compiler fails or is slow.
    """
    from minip4.compiler import compile_p4  # noqa: PLC0415  atheris watches what comes after it
    from minip4.compiler.errors import P4Error  # noqa: PLC0415

    path = folder / "test.p4"
    path.write_bytes(text.encode("latin-1", "replace"))
    start_s = time.process_time()
    try:
        compile_p4(path, include_dirs=[REPOSITORY / "p4src", REPOSITORY / "p4src" / "ampm"])
        good = True
    except P4Error:
        good = False
    except Exception as error:
        raise Finding(f"{keep(text)}: {type(error).__name__}: {error}") from error
    took_s = time.process_time() - start_s
    if took_s > LIMIT_S:
        raise Finding(f"{keep(text)}: took {took_s:.1f} s of CPU time")
    return good


def keep(text: str) -> Path:
    """Save a text on which the compiler failed. Return its path."""
    path = Path(tempfile.mkdtemp(prefix="minip4-finding-front-end-")) / "test.p4"
    path.write_bytes(text.encode("latin-1", "replace"))
    return path


def fuzz(seconds: float, seed: int) -> str:
    """Compile mutated programs for this time; return a summary. Raises Finding."""
    rng = random.Random(seed)
    starts = [words_of(text) for text in programs()]
    count = good = 0
    end_s = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end_s:
            good += compile_text(mutate(rng.choice(starts), rng), Path(folder))
            count += 1
    return f"{count} texts, {good} of them programs"


def fuzz_guided(seconds: int, seed: int) -> None:
    """Compile mutated programs, and end the process. Programs that reach new code mutate again."""
    import atheris  # noqa: PLC0415  not among the project's dependencies

    with atheris.instrument_imports(include=["minip4.compiler"]):
        import minip4.compiler  # noqa: F401, PLC0415

    work = Path(tempfile.mkdtemp(prefix="minip4-fuzz-"))
    corpus = work / "corpus"
    corpus.mkdir()
    for number, text in enumerate(programs()):
        (corpus / f"{number:02}").write_bytes(text.encode("latin-1", "replace"))

    def change(data: bytes, limit: int, number: int) -> bytes:
        text = mutate(words_of(data.decode("latin-1")), random.Random(number))
        return text.encode("latin-1", "replace")[:limit]

    atheris.Setup(
        [sys.argv[0], str(corpus), f"-max_total_time={seconds}", f"-seed={seed}",
         "-max_len=65536", "-timeout=60", "-rss_limit_mb=4000", "-print_final_stats=1"],
        lambda data: compile_text(data.decode("latin-1"), work) and None, custom_mutator=change,
    )  # fmt: skip
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (1)")
    parser.add_argument("--plain", action="store_true", help="without atheris")
    args = parser.parse_args()
    if not args.plain and importlib.util.find_spec("atheris") is None:
        parser.error("no atheris (pip install atheris), or use --plain")
    if not args.plain:
        fuzz_guided(args.seconds, args.seed)
    try:
        print(f"no finding in {args.seconds} s: {fuzz(args.seconds, args.seed)}")
    except Finding as finding:
        print(finding)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
