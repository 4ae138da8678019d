"""Loader of eBPF programs (libbpf). It compiles C, attaches programs, and gives access to maps.

The content of maps is available as numpy arrays.
"""

from ebpf.loader.errors import LoadError
from ebpf.loader.frames import Sent, Tried, live, run, run_live
from ebpf.loader.links import Link, attach_tc, attach_xdp
from ebpf.loader.maps import Map
from ebpf.loader.objects import Program, ProgramObject, load

__all__ = [
    "Link", "LoadError", "Map", "Program", "ProgramObject", "Sent", "Tried", "attach_tc",
    "attach_xdp", "live", "load", "run", "run_live",
]  # fmt: skip
