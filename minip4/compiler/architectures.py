"""The supported architectures: for each main package, its blocks and its lowering."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import Architecture, V1Switch
from minip4.compiler.instances.objects import annotation_pairs
from minip4.compiler.lower.program import ProgramLowering
from minip4.compiler.lower.v1model import V1ModelLowering
from minip4.compiler.tna.architecture import Switch, Switch2
from minip4.compiler.tna.declarations import require_declarations
from minip4.compiler.tna.program import TnaLowering

_TNA: dict[str, type[Switch]] = {"TNA": Switch, "T2NA": Switch2}  # by @pkginfo(arch = ...)
_TNA_PACKAGES = ("Switch", "MultiParserSwitch")
LOWERINGS: dict[str, type[ProgramLowering]] = {
    "v1model": V1ModelLowering,
    "tna": TnaLowering,
    "t2na": TnaLowering,
}


def architecture_of(program: syntax.Program) -> Architecture:
    """Return the blocks and objects of a program. Raises P4Error if its package is unknown.

    A program may contain its own copy of tna.p4 or t2na.p4.
    """
    main = program.main
    assert main is not None
    package = main.type
    if isinstance(package, types.Package):
        source = package.declaration.source
        is_v1model = source.file.is_system and source.file.path.endswith("v1model.p4")
        if is_v1model and package.name == "V1Switch":
            return V1Switch(program)
        known = _TNA.get(_arch(package.declaration))
        if known is not None and package.name in _TNA_PACKAGES:
            if not source.file.is_system:
                require_declarations(program, f"{known.name}.p4")
            return known(program)
    raise P4Error(
        f"package {package} is not supported",
        main.source,
        "V1Switch of v1model.p4, or Switch or MultiParserSwitch of tna.p4 or t2na.p4",
    )


def _arch(package: syntax.PackageDeclaration) -> str:
    info = package.annotation("pkginfo")
    return "" if info is None else str(dict(annotation_pairs(info)).get("arch", ""))
