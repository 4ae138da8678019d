"""Loader of eBPF programs: compiles C, attaches it to a device, maps as numpy arrays (libbpf)."""

from ebpf.loader.errors import LoadError
from ebpf.loader.frames import Sent, Tried, live, run, run_live
from ebpf.loader.links import Link, attach_tc, attach_xdp
from ebpf.loader.maps import Map
from ebpf.loader.objects import Program, ProgramObject, load

__all__ = [
    "Link", "LoadError", "Map", "Program", "ProgramObject", "Sent", "Tried", "attach_tc",
    "attach_xdp", "live", "load", "run", "run_live",
]  # fmt: skip
