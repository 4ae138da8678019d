"""Provenance of results: programs, commit, machine and date."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from minip4.compiler.preprocess.preprocessor import preprocess
from minip4.compiler.source import SourceFile
from telemark import REPOSITORY

PACKAGES = ("telemark", "finsy", "matplotlib", "numpy", "scapy")
# Folders of installed modules. python_files() does not return these modules.
INSTALLED = (f"{sys.prefix}/", f"{sysconfig.get_path('stdlib')}/")


@dataclass(frozen=True)
class P4Source:
    """P4 program after preprocessing, which includes other files.

    `sha256` is a hash of the tokens. Comments, line breaks and the path of the program do not
    affect it. core.p4 and v1model.p4 do not affect it either, because they belong to the compiler.
    """

    path: Path
    defines: tuple[str, ...]  # NAME=value
    sha256: str
    files: frozenset[Path]

    @classmethod
    def read(cls, path: Path, defines: Sequence[str] = ()) -> "P4Source":
        """Read the program at `path`. Raises P4Error if the preprocessor fails."""
        tokens, _ = preprocess(path, (), defines)
        own = "\n".join(token.text for token in tokens if not token.file.is_system)
        files = frozenset(
            Path(file.path).resolve() for file in _all_files(tokens[-1].file) if not file.is_system
        )
        return cls(path, tuple(defines), hashlib.sha256(own.encode()).hexdigest(), files)

    def as_portable(self) -> tuple[str, tuple[str, ...], str, tuple[str, ...]]:
        """Return plain data, from which from_portable() creates the program in another checkout."""
        files = tuple(sorted(_shown(path) for path in self.files))
        return _shown(self.path), self.defines, self.sha256, files

    @classmethod
    def from_portable(
        cls, path: str, defines: tuple[str, ...], sha256: str, files: Iterable[str]
    ) -> "P4Source":
        """Return the program with its paths in this checkout."""
        own = frozenset(REPOSITORY / file for file in files)
        return cls(REPOSITORY / path, defines, sha256, own)

    def as_dict(self) -> dict[str, object]:
        """Return an entry of summary.json."""
        return {"path": _shown(self.path), "defines": list(self.defines), "sha256": self.sha256}


@dataclass(frozen=True)
class BpfSource:
    """C file of a BPF program.

    `sha256` covers the file and the project's headers that it includes.
    """

    path: Path
    sha256: str

    def as_dict(self) -> dict[str, object]:
        """Return an entry of summary.json."""
        return {"path": _shown(self.path), "sha256": self.sha256}


# BPF programs compiled by this process; the caller of the compiler adds them.
bpf_sources: set[BpfSource] = set()


def _all_files(file: SourceFile) -> list[SourceFile]:
    return [file, *(below for included in file.includes for below in _all_files(included))]


@dataclass
class Origin:
    """Provenance of a run: docstring of the experiment, date, and programs."""

    question: str = ""
    claim: str = ""
    published: str = ""
    began: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    programs: set[P4Source] = field(default_factory=set)
    _began_s: float = field(default_factory=time.monotonic)

    def as_dict(self) -> dict[str, Any]:
        """Return the entries for summary.json. Call it at the end of the run."""
        programs = sorted(self.programs, key=lambda p: (str(p.path), p.defines, p.sha256))
        return {
            "question": self.question,
            "claim": self.claim,
            "published": self.published,
            "date": self.began.isoformat(timespec="seconds"),
            "duration_s": round(time.monotonic() - self._began_s, 1),
            "programs": [program.as_dict() for program in programs],
            "bpf_programs": [
                source.as_dict()
                for source in sorted(bpf_sources, key=lambda s: (str(s.path), s.sha256))
            ],
            "environment": environment(file for p in programs for file in p.files),
        }


def environment(p4_files: Iterable[Path] = ()) -> dict[str, Any]:
    """Return the properties of the machine and the checkout that may affect results."""
    revision, changed = git_state({*p4_files, *python_files()})
    return {**machine(), "git": revision, "changed": changed}


@cache
def machine() -> dict[str, Any]:
    """Return the properties of this machine, and versions of installed packages."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "versions": {"python": platform.python_version(), **versions},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def git_state(used: Iterable[Path], repository: Path = REPOSITORY) -> tuple[str, list[str]]:
    """Return the commit, and the names of the files that differ from the commit.

    If files differ, `+` is appended to the commit. Such files are changed tracked files (except
    results), and untracked files in `used`. Outside a checkout, the commit is `unknown`.
    """
    # Under sudo, the checkout belongs to another user. Without safe.directory, git rejects such a
    # checkout.
    git = ["git", "-c", f"safe.directory={repository}", "-C", str(repository)]

    def lines(*arguments: str) -> list[str]:
        done = subprocess.run([*git, *arguments], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.split("\0") if line]

    try:
        revision = lines("rev-parse", "HEAD")[0].strip()
        changed = {*lines("diff", "HEAD", "--name-only", "-z", "--", ".", ":(exclude)results")}
        tracked = {repository / name for name in lines("ls-files", "-z")}
    except (OSError, subprocess.CalledProcessError):
        return "unknown", []
    changed |= {_shown(path, repository) for path in used if path not in tracked}
    return revision + ("+" if changed else ""), sorted(changed)


def python_files() -> set[Path]:
    """Return the files of all loaded modules of the project, and of modules next to the script."""
    places = (REPOSITORY, Path(sys.argv[0]).resolve().parent)
    named = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    files = {Path(name).resolve() for name in named if name and not name.startswith(INSTALLED)}
    return {
        path
        for path in files
        if any(map(path.is_relative_to, places)) and not path.is_relative_to(sys.prefix)
    }


def _shown(path: Path, repository: Path = REPOSITORY) -> str:
    """Return a path relative to the repository's root. Other paths are returned as they are."""
    return str(path.relative_to(repository) if path.is_relative_to(repository) else path)
