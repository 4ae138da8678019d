"""The shared object of a program stays mapped while an engine of this program is open."""

from pathlib import Path

from small_programs import engine

from minip4.engine.engine import Engine

FRAME = bytes(range(64))


def own(number: int) -> Engine:
    """Return an engine with a program that no other test uses."""
    return engine(ingress=f"hdr.h.a = {number}; hdr.h.c = 0xfade; std.egress_spec = 2;")


def passes(made: Engine, number: int) -> bool:
    return made.process(1, FRAME, 0) == [(2, bytes([number, 1, 0xFA, 0xDE]) + FRAME[4:])]


def is_mapped(name: str) -> bool:
    return name in Path("/proc/self/maps").read_text()


def addresses_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmSize"))


def test_a_closed_engine_s_program_is_unmapped_with_its_memory() -> None:
    for number in range(3):
        made = own(number)
        name = made.library._name
        assert passes(made, number)
        assert is_mapped(name)
        open_kb = addresses_kb()
        made.close()
        assert not is_mapped(name)
        assert addresses_kb() < open_kb - 66_000  # also the addresses of its tables


def test_engines_that_share_a_program_keep_it() -> None:
    first, same = own(5), own(5)
    other = first.another()
    name = first.library._name
    first.close()
    first.close()  # a second call has no effect
    assert passes(same, 5)
    assert passes(other, 5)
    same.close()
    assert passes(other, 5)
    other.close()
    assert not is_mapped(name)
