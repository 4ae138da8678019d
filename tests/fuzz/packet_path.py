"""Fuzzes the packet path of P4 programs: the generated C code and the engine core.

The generated code and the core are built with ASan and UBSan.

python tests/fuzz/packet_path.py [PROGRAM.p4 ...] --seconds 600
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import content
from recorder import Recorder

from minip4 import engine, wire
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.library import c_sources
from minip4.native.cache import folder as cache_folder

HERE = Path(__file__).parent
C_FOLDERS = (engine.C_FOLDER, wire.C_FOLDER)
REPOSITORY = HERE.parents[1]
FLAGS = ("-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-march=native",
         "-fno-strict-aliasing", "-D__SANITIZE_ADDRESS__=1",
         "-fno-sanitize-recover=all")  # fmt: skip
CLANG = ("-fsanitize=fuzzer-no-link,address,undefined",)
GCC = ("-fsanitize=address,undefined",)
UNINSTRUMENTED = ("engine.c",)
"""Creates and frees engines only: its long loops give a fuzzer no coverage."""

MAX_INPUT = 4096
SEEDS = 64
OPTIONS = {
    # Each input creates and frees an engine. If the stack of each allocation were stored, the speed
    # would halve.
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:malloc_context_size=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class NoFuzzer(Exception):
    """clang with libFuzzer is not installed. str() names the missing part."""


class Finding(Exception):
    """An input on which the packet path fails. str() has its path, and the end of the report."""


def programs() -> list[Path]:
    """Return the complete programs of p4src/ and of the tests."""
    folders = (REPOSITORY / "p4src", REPOSITORY / "tests")
    found = sorted(path for folder in folders for path in folder.rglob("*.p4"))
    return [path for path in found if re.search(r"\b(V1|MultiParser)?Switch\(", path.read_text())]


def fuzz(program: Path, seconds: int, *, seed: int = 1, keep: Path | None = None,
         feedback: bool = True, defines: Sequence[str] = ()) -> str:  # fmt: skip
    """Fuzz one program, and return the last lines of the fuzzer. Raises Finding and NoFuzzer.

    With `feedback`, the fuzzer is libFuzzer. Otherwise, it is mutate.c, built with the C compiler
    of engines. The folder `keep` stores the corpus for later runs.
    """
    if feedback:
        _check_clang()
    with tempfile.TemporaryDirectory(prefix="minip4-fuzz-") as folder:
        work = Path(folder)
        config = compile_p4(program, include_dirs=[REPOSITORY / "p4src"]).bmv2_json
        generated, fill = _engine_source(config, seed)
        architecture = config["__meta__"].get("architecture", "v1model")
        fuzzer = _build(work, architecture, generated, fill, feedback=feedback, defines=defines)
        seeds = work / "seeds"
        _write_seeds(seeds, config, seed)
        command = (
            _libfuzzer(work, config, seconds=seconds, seed=seed, corpus=keep or seeds)
            if feedback
            else [str(fuzzer), str(seconds), str(seed), *map(str, sorted(seeds.iterdir()))]
        )
        run = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False,
                             errors="replace", env={**os.environ, **OPTIONS})  # fmt: skip
        if run.returncode:
            raise Finding(_keep_finding(work, program, run.stdout + run.stderr))
        return _summary(run.stdout + run.stderr)


def _engine_source(config: dict[str, Any], seed: int) -> tuple[str, str]:
    """Return the C code of the program, and that of fill_engine().

    This function fills the tables.
    """
    engine = Engine(config)
    library: Any = engine.library
    engine.close()
    engine.handle = ctypes.c_void_p(library.engine_create(None, seed))
    recorder = Recorder(library, engine.handle)
    engine.library = recorder  # type: ignore[assignment]
    engine._initialize()
    content.fill(engine, config, seed)
    library.engine_destroy(engine.handle)
    return engine.generator.text, recorder.source()


def _libfuzzer(work: Path, config: dict[str, Any], *, seconds: int, seed: int,
               corpus: Path) -> list[str]:  # fmt: skip
    corpus.mkdir(parents=True, exist_ok=True)
    dictionary = work / "dictionary"
    dictionary.write_text("".join(f'"{_escaped(c)}"\n' for c in set(content.constants(config))))
    return [str(work / "fuzzer"), str(corpus), str(work / "seeds"), f"-max_total_time={seconds}",
            f"-seed={seed}", f"-max_len={MAX_INPUT}", f"-dict={dictionary}", "-timeout=30",
            "-use_value_profile=1", "-rss_limit_mb=3000", "-print_final_stats=1"]  # fmt: skip


def _escaped(constant: str) -> str:
    data = bytes.fromhex(constant.rjust(len(constant) + len(constant) % 2, "0"))
    return "".join(f"\\x{byte:02x}" for byte in data)


def _write_seeds(folder: Path, config: dict[str, Any], seed: int) -> None:
    """Write inputs of a few frames each. The frames contain constants of the program."""
    rng = random.Random(seed)
    words = [bytes.fromhex(c.rjust(len(c) + len(c) % 2, "0")) for c in content.constants(config)]
    folder.mkdir()
    for number in range(SEEDS):
        steps = b""
        for _ in range(rng.choice([1, 2, 5])):
            frame = b"".join(
                rng.choice([*words, rng.randbytes(4), bytes(2)])
                for _ in range(rng.choice([4, 12, 40]))
            )
            steps += bytes([rng.randrange(10), rng.randrange(256)])
            steps += len(frame).to_bytes(2, "big") + frame
        (folder / f"seed{number:02}").write_bytes(steps)


def _build(work: Path, architecture: str, generated: str, fill: str, *, feedback: bool,
           defines: Sequence[str]) -> Path:  # fmt: skip
    """Build the fuzzer of one program. All programs share the object files of the engine core."""
    compiler, sanitizers = ("clang", CLANG) if feedback else (os.environ.get("CC", "cc"), GCC)
    (work / "generated.c").write_text(generated)
    (work / "fill.c").write_text(fill)
    own = [work / "generated.c", work / "fill.c", HERE / "packet_path.c"]
    own += [] if feedback else [HERE / "mutate.c"]
    sources, folders = c_sources(architecture, C_FOLDERS)
    objects = [*_core(compiler, sanitizers, tuple(sources), folders)]
    objects += _compile(compiler, (*sanitizers, *defines), own, folders, work)
    fuzzer = work / "fuzzer"
    link = "-fsanitize=fuzzer,address,undefined" if feedback else GCC[0]
    _cc([compiler, link, *map(str, objects), "-o", str(fuzzer), "-lpthread", "-lm"])
    return fuzzer


@cache
def _core(
    compiler: str, sanitizers: tuple[str, ...], sources: tuple[Path, ...], folders: tuple[Path, ...]
) -> list[Path]:
    headers = [header for folder in folders for header in sorted(folder.glob("*.h"))]
    digest = hashlib.sha256("\0".join((compiler, *FLAGS, *sanitizers, *UNINSTRUMENTED)).encode())
    for path in [*sources, *headers]:
        digest.update(path.read_bytes())
    folder = cache_folder() / f"fuzz-{digest.hexdigest()[:32]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as building:
            _compile(compiler, sanitizers, sources, folders, Path(building))
            shutil.copytree(building, f"{building}.done")
            try:
                Path(f"{building}.done").rename(folder)
            except OSError:  # another run has built the engine core in the meantime
                shutil.rmtree(f"{building}.done")
    return sorted(folder.glob("*.o"))


def _compile(compiler: str, sanitizers: Sequence[str], sources: Sequence[Path],
             include: Sequence[Path], folder: Path) -> list[Path]:  # fmt: skip
    objects = [folder / (source.stem + ".o") for source in sources]
    commands = [
        [compiler, *FLAGS, *(s for s in sanitizers if source.name not in UNINSTRUMENTED),
         *(f"-I{path}" for path in include), "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, objects, strict=True)
    ]  # fmt: skip
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(_cc, commands))
    return objects


def _cc(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{run.stderr}")


def _check_clang() -> None:
    if shutil.which("clang") is None:
        raise NoFuzzer("no clang (Debian, Ubuntu: apt install clang)")
    run = subprocess.run(["clang", "-fsanitize=fuzzer,address", "-x", "c", "-", "-o", "/dev/null"],
                         input="int LLVMFuzzerTestOneInput(void) { return 0; }",
                         capture_output=True, text=True, check=False)  # fmt: skip
    if run.returncode:
        raise NoFuzzer("clang has no libFuzzer (Debian, Ubuntu: apt install libclang-rt-dev)")


def _keep_finding(work: Path, program: Path, report: str) -> str:
    """Save the failing input; return its path and the report."""
    inputs = [*work.glob("crash-*"), *work.glob("leak-*"), *work.glob("timeout-*"),
              *work.glob("oom-*"), *work.glob("last-input")]  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix=f"minip4-finding-{program.stem}-"))
    for path in [*inputs, work / "generated.c", work / "fill.c", work / "fuzzer"]:
        shutil.copy(path, folder)
    (folder / "report").write_text(report)
    return f"{program.name}: {folder}\n{report[-6000:]}"


def _summary(report: str) -> str:
    lines = [line for line in report.splitlines() if "number_of_executed_units" in line
             or line.endswith(" inputs") or " cov: " in line]  # fmt: skip
    return "; ".join(lines[-2:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "programs", type=Path, nargs="*", help="programs (default: all of the project)"
    )
    parser.add_argument("--seconds", type=int, default=60, help="for each program (60)")
    parser.add_argument("--seed", type=int, default=1, help="of tables and mutations (1)")
    parser.add_argument("--corpus", type=Path, help="folder that keeps what was learnt")
    parser.add_argument("--plain", action="store_true", help="own mutations instead of libFuzzer")
    args = parser.parse_args()
    status = 0
    for program in args.programs or programs():
        keep = None if args.corpus is None else args.corpus.absolute() / program.stem
        try:
            said = fuzz(program, args.seconds, seed=args.seed, keep=keep, feedback=not args.plain)
            print(f"{program.name}: no finding in {args.seconds} s; {said}", flush=True)
        except Finding as finding:
            print(finding, flush=True)
            status = 1
        except NoFuzzer as error:
            parser.error(f"{error}, or use --plain")
    return status


if __name__ == "__main__":
    sys.exit(main())
