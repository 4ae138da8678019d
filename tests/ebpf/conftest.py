"""Fixtures for eBPF: a network namespace with a veth pair, and programs that tests write."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import wire

HEAD = '#include "chain.h"\nchar _license[] SEC("license") = "Dual MIT/GPL";\n'


@pytest.fixture
def veth() -> Iterator[tuple[str, str]]:
    """Return the ends of a veth pair. This process enters its network namespace for the test."""
    with wire.namespace():
        wire.veth("v0", "v1")
        yield "v0", "v1"


@pytest.fixture
def write_bpf(tmp_path: Path) -> Callable[[str], Path]:
    """Write a BPF program with its includes and its license."""
    if os.geteuid():
        pytest.skip("BPF needs root")

    def write(text: str, name: str = "example") -> Path:
        path = tmp_path / f"{name}.bpf.c"
        path.write_text(HEAD + text)
        return path

    return write
