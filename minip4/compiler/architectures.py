"""The supported architectures: for each main package, its blocks and its lowering."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import Architecture, V1Switch
from minip4.compiler.lower.program import ProgramLowering
from minip4.compiler.lower.v1model import V1ModelLowering
from minip4.compiler.tna.architecture import Switch
from minip4.compiler.tna.program import TnaLowering

_PACKAGES: dict[tuple[str, str], type[Architecture]] = {
    ("v1model.p4", "V1Switch"): V1Switch,
    ("tna.p4", "Switch"): Switch,
}
LOWERINGS: dict[str, type[ProgramLowering]] = {"v1model": V1ModelLowering, "tna": TnaLowering}


def architecture_of(program: syntax.Program) -> Architecture:
    """Return the blocks and objects of a program. Raises P4Error if its package is unknown."""
    main = program.main
    assert main is not None
    package = main.type
    if isinstance(package, types.Package):
        source = package.declaration.source
        file = source.file.path.rpartition("/")[2]
        known = _PACKAGES.get((file, package.name))
        if known is not None and source.file.is_system:
            return known(program)
    raise P4Error(
        f"package {package} is not supported",
        main.source,
        "V1Switch of v1model.p4 or Switch of tna.p4",
    )
