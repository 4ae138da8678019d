"""Comparison of a program's own copy of the architecture with the declarations of tna.p4."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.parser import parse
from minip4.compiler.preprocess.preprocessor import INCLUDE_DIR, preprocess


def require_declarations(program: syntax.Program, file: str) -> None:
    """Reject declarations that differ from those with the same name in tna.p4 or t2na.p4.

    Differences in names of types, and in padding and widths of metadata, do not matter.
    """
    tokens, _ = preprocess(INCLUDE_DIR / file, (), ())
    known: dict[str, set[object]] = {}
    for declaration in parse(tokens, file).declarations:
        for name, signature, _ in _signatures(declaration):
            known.setdefault(name, set()).add(signature)
    for declaration in program.declarations:
        for name, signature, source in _signatures(declaration):
            if name in known and signature not in known[name]:
                raise P4Error(f"{name} differs from its declaration in {file}", source)
    if not isinstance(program.find("PORT_METADATA_SIZE"), syntax.ConstantDeclaration):
        raise P4Error(
            "the program has no constant PORT_METADATA_SIZE", program.source, f"#include <{file}>"
        )


def _signatures(d: syntax.Declaration) -> list[tuple[str, object, syntax.Source]]:
    """Return the names in a declaration of the architecture, what they have, and their sources."""
    match d:
        case syntax.ExternDeclaration():
            methods = [*d.constructors, *d.methods]
            return [(f"{d.name}.{m.name}()", _directions(m.parameters), m.source) for m in methods]
        case syntax.Function(body=None):
            return [(f"{d.name}()", _directions(d.parameters), d.source)]
        case syntax.StructDeclaration() if d.annotation("__intrinsic_metadata") is not None:
            fields = [f.name for f in d.fields if f.annotation("padding") is None]
            return [(d.name, (d.keyword, *fields), d.source)]
        case syntax.ParserTypeDeclaration() | syntax.ControlTypeDeclaration():
            named = [p.type_expression for p in d.parameters]
            names = [t.name for t in named if isinstance(t, syntax.TypeName)]
            return [(d.name, (_directions(d.parameters), *names), d.source)]
        case syntax.PackageDeclaration():
            return [(d.name, tuple(p.name for p in d.parameters), d.source)]
    return []


def _directions(parameters: list[syntax.Parameter]) -> tuple[object, ...]:
    return tuple((p.direction, p.annotation("optional") is not None) for p in parameters)
