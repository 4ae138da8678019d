"""Chains of XDP programs: each program has a next program (chain.h).

A list in the kernel contains the next program of each program. A change takes effect between two
packets.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress

from ebpf.loader.errors import LoadError
from ebpf.loader.objects import Program, ProgramObject

NEXT = "next_program"
# for each object: the number of chain positions at which a program of this object is
_uses: Counter[ProgramObject] = Counter()
# for each object with a following program: a file descriptor of its list. The kernel empties the
# list when no process has it open, so the loader keeps it open.
_kept: dict[ProgramObject, int] = {}


def enter(program: Program, following: Program | None) -> None:
    """Add a program to a chain. `following` is the next program. Raises LoadError."""
    if program.whole in _kept or (following and _uses[program.whole]):
        raise LoadError(
            f"program {program.name}: attached to several devices and followed by another "
            "program; load it once per device"
        )
    set_next(program, following)
    _uses[program.whole] += 1


def leave(program: Program) -> None:
    """Remove a program from a chain."""
    _uses[program.whole] -= 1
    if not _uses[program.whole]:
        del _uses[program.whole]
        set_next(program, None)


def set_next(program: Program, following: Program | None) -> None:
    """Set the next program: it gets each packet that `program` passes.

    If `following` is None, the network stack of the kernel gets these packets.

    Raises LoadError.
    """
    whole = program.whole
    if following is None:
        if whole in _kept:
            with suppress(KeyError):
                del whole.maps[NEXT][0]
            os.close(_kept.pop(whole))
        return
    if NEXT not in whole.maps:
        raise LoadError(
            f"program {program.name}: cannot be followed by another program; it must call "
            "pass_on() of ebpf/include/chain.h"
        )
    if _uses[whole] > 1:
        raise LoadError(
            f"program {program.name}: attached to several devices and followed by another "
            "program; load it once per device"
        )
    whole.maps[NEXT][0] = following.fd
    if whole not in _kept:
        _kept[whole] = os.dup(whole.maps[NEXT].fd)
