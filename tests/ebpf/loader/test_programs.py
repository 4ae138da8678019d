"""Programs are compiled and loaded with constants. An error is one line with the reason."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from ebpf.loader import LoadError, compile, libbpf, load, run
from telemark.results.provenance import Origin

FRAME = bytes(64)
RETURNS = """
const volatile int verdict = XDP_DROP;
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 2); __type(key, int);
         __type(value, int); } seen SEC(".maps");
SEC("xdp") int example(struct xdp_md *packet) { return verdict; }
"""
Write = Callable[[str], Path]


def test_constants_and_sizes_are_those_it_is_loaded_with(write_bpf: Write) -> None:
    source = write_bpf(RETURNS)
    for verdict in (1, 3):
        with load(source, {"verdict": verdict}, {"seen": 7}) as whole:
            assert run(whole.programs["example"], FRAME).verdict == verdict
            assert whole.maps["seen"].max_entries == 7
    with load(source) as whole:
        assert run(whole.programs["example"], FRAME).verdict == 1
        assert whole.maps["seen"].max_entries == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (({"nothing": 1},), "no constant nothing; expected one of verdict"),
        (({"verdict": "many"},), "constant verdict (int32) cannot be many: "),
        (({"verdict": 1 << 32},), "constant verdict (int32) cannot be 4294967296: "),
        (({}, {"nothing": 1}), "no map nothing; expected one of "),
        (({}, {"seen": 0}), "map seen"),
    ],
)
def test_what_it_does_not_have_is_refused(
    write_bpf: Write, arguments: tuple[dict[str, int], ...], text: str
) -> None:
    with pytest.raises(LoadError) as caught:
        load(write_bpf(RETURNS), *arguments)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_result_names_the_very_source_of_its_programs(write_bpf: Write, tmp_path: Path) -> None:
    header, source = tmp_path / "mine.h", write_bpf('#include "mine.h"\n' + RETURNS)
    header.write_text("/* nothing yet */\n")
    first = compile.hash_source(source)
    assert compile.hash_source(source) == first
    header.write_text("/* another text */\n")
    second = compile.hash_source(source)
    (tmp_path / "other.h").write_text("/* that it does not include */\n")
    assert first != second == compile.hash_source(source)
    source.write_text(source.read_text() + "\n")
    assert compile.hash_source(source) != second
    with load(source):
        pass
    assert compile.hash_source(source).as_dict() in Origin().as_dict()["bpf_programs"]


def test_the_verifiers_reason_is_told_with_its_line(write_bpf: Write) -> None:
    source = write_bpf(
        'SEC("xdp") int example(struct xdp_md *packet) {\n'
        "    int kept = packet->rx_queue_index;\n"
        "    return kept + *((char *)(long)packet->data + 70);\n"
        "}\n"
    )
    with pytest.raises(LoadError) as caught:
        load(source)
    assert str(caught.value).startswith(f"{source}: program example: ")
    assert "R1 offset is outside of the packet" in str(caught.value)
    assert "return kept + *((char *)(long)packet->data + 70);" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_kernel_features_are_reported(write_bpf: Write) -> None:
    source = write_bpf(
        "static long (*helper)(void) = (void *)9999;\n"
        'SEC("xdp") int example(struct xdp_md *packet) { return helper(); }\n'
    )
    with pytest.raises(LoadError, match=rf"9999.*\(Linux {os.uname().release} lacks it\)"):
        load(source)


def test_what_clang_refuses_is_told_with_its_place(write_bpf: Write) -> None:
    source = write_bpf('SEC("xdp") int example(struct xdp_md *packet) { return nothing; }')
    with pytest.raises(LoadError, match=r"example.bpf.c:3:\d+: error: use of undeclared"):
        load(source)


def test_a_program_is_compiled_once_for_each_content(
    write_bpf: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for text in (RETURNS, RETURNS, RETURNS.replace("XDP_DROP", "XDP_TX")):
        load(write_bpf(text)).close()
    (tmp_path / "beside.h").write_text("")
    load(write_bpf(RETURNS)).close()
    assert len(list((tmp_path / "cache").glob("*/*.o"))) == 3


def test_missing_tools_are_reported(
    write_bpf: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_bpf(RETURNS)
    old = tmp_path / "clang"
    old.write_text("#!/bin/sh\necho clang version 13.0.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CLANG", raising=False)
    compile.clang.cache_clear()
    with pytest.raises(LoadError, match=r"no clang of version 14 or newer .* \./setup\.sh"):
        load(source)
    old.write_text("#!/bin/sh\necho Debian clang version 21.1.0\n")
    assert compile.clang()[1] == "clang version 21.1.0"
    compile.clang.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(libbpf, "NAME", "libnothing.so")
    libbpf.library.cache_clear()
    with pytest.raises(LoadError, match=r"libnothing\.so is missing or too old"):
        load(source)
    libbpf.library.cache_clear()


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(LoadError, match=r"no BPF program /\S*ebpf/nothing\.bpf\.c"):
        load("ebpf/nothing.bpf.c")


def test_an_interrupt_is_not_lost_in_what_libbpf_calls(
    write_bpf: Callable[[str], Path],
) -> None:
    """load() raises KeyboardInterrupt for an interrupt during the Python callback of libbpf.

    C code calls this callback, and ctypes ignores exceptions in it.
    """

    def interrupt(frame: FrameType, event: str, _argument: object) -> None:
        if (frame.f_code.co_name, event) == ("_print", "call"):
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    source = write_bpf('SEC("xdp") int example(struct xdp_md *packet) { return XDP_PASS; }')
    with load(source):  # then the cache has all files for the second load
        # this process may ignore SIGINT, as its parent did
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.setprofile(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                load(source)
        finally:
            sys.setprofile(None)
            signal.signal(signal.SIGINT, before)
