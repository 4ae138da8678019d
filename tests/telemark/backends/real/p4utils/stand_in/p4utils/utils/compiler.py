"""A compiler that stores its parameters."""

from pathlib import Path


class CompilationError(Exception):
    """Stand-in for p4-utils' class."""


class P4C:
    """Stand-in for p4-utils' class, with the same output paths and default options."""

    def __init__(self, p4_src, opts="--target bmv2 --arch v1model --std p4-16", p4rt=False):
        self.p4_src = p4_src
        self.opts = opts
        self.p4rt = p4rt
        self.compiled = False
        stem = str(Path(p4_src).with_suffix(""))
        self.json_out, self.p4rt_out = f"{stem}.json", f"{stem}_p4rt.txt"
