"""Inference of type arguments of generic functions from the arguments of a call (spec 8.20)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.types import Type


class Inference:
    """The current bindings of some type parameters."""

    def __init__(self, parameters: list[syntax.TypeParameter]) -> None:
        self.parameters = parameters
        self.known: dict[syntax.TypeParameter, Type] = {}

    def substitute(self, of: Type) -> Type:
        return types.substitute(of, self.known)

    def missing(self) -> list[syntax.TypeParameter]:
        return [p for p in self.parameters if p not in self.known]

    def unify(self, formal: Type, actual: Type) -> bool:
        """Bind type parameters so that a parameter of type `formal` accepts type `actual`.

        Returns False if no binding makes them fit. If it returns True, later checks may still
        reject the conversion.
        """
        if isinstance(formal, types.Variable):
            if formal.declaration in self.parameters:
                return self.bind(formal.declaration, actual)
            return True
        if isinstance(formal, (types.Parser, types.Control)):
            return self.unify_signature(formal, actual)
        if isinstance(formal, types.Named):
            if isinstance(actual, types.Named) and actual.declaration is formal.declaration:
                arguments = zip(formal.arguments, actual.arguments, strict=False)
                return all(self.unify(f, a) for f, a in arguments)
            if isinstance(formal, types.StructLike) and isinstance(actual, types.Tuple):
                values = list(formal.fields.values())
                pairs = zip(values, actual.elements, strict=False)
                return all(self.unify(f, a) for f, a in pairs)
            return True
        if isinstance(formal, types.Tuple) and isinstance(actual, types.Tuple):
            pairs = zip(formal.elements, actual.elements, strict=False)
            return all(self.unify(f, a) for f, a in pairs)
        if isinstance(formal, types.List):
            if isinstance(actual, types.List):
                return self.unify(formal.element, actual.element)
            if isinstance(actual, types.Tuple):
                return all(self.unify(formal.element, a) for a in actual.elements)
        if isinstance(formal, types.Stack) and isinstance(actual, types.Stack):
            return self.unify(formal.element, actual.element)
        if isinstance(formal, types.Set) and isinstance(actual, types.Set):
            return self.unify(formal.element, actual.element)
        return True

    def bind(self, parameter: syntax.TypeParameter, actual: Type) -> bool:
        if actual in (types.DONT_CARE, types.INVALID_HEADER):
            return True
        bound = self.known.get(parameter)
        if bound is None or bound == actual:
            self.known[parameter] = actual
            return True
        merged = _merge(bound, actual)
        if merged is None:
            return False
        self.known[parameter] = merged
        return True

    def unify_signature(self, formal: types.Parser | types.Control, actual: Type) -> bool:
        """Unify parser or control types. Parameters must agree in order and direction (16.1)."""
        if not isinstance(actual, type(formal)):
            return False
        if actual.declaration is formal.declaration:
            pairs = zip(formal.arguments, actual.arguments, strict=False)
            return all(self.unify(f, a) for f, a in pairs)
        given = actual.declaration.parameters
        wanted = _without_omitted(formal.declaration.parameters, given)
        if len(wanted) != len(given):
            return False
        binding = types.bind(formal.declaration.type_parameters, formal.arguments)
        for w, g in zip(wanted, given, strict=True):
            expected = types.substitute(w.type, binding)
            if w.direction != g.direction or not self.unify(expected, g.type):
                return False
            if not fits(g.type, self.substitute(expected)):
                return False
        return True


def _without_omitted(
    wanted: list[syntax.Parameter], given: list[syntax.Parameter]
) -> list[syntax.Parameter]:
    """Return `wanted` without the @optional parameters that `given` leaves out.

    A parameter marked @optional is left out if the next given one has another type.
    """
    result: list[syntax.Parameter] = []
    for w in wanted:
        is_next = len(result) < len(given) and given[len(result)].type == w.type
        if is_next or w.annotation("optional") is None:
            result.append(w)
    return result


def fits(of: Type, wanted: Type) -> bool:
    """Return whether the types are equal; a type argument `_` equals any type."""
    if of == wanted or wanted is types.DONT_CARE:
        return True
    return (
        isinstance(of, types.Named)
        and isinstance(wanted, types.Named)
        and of.declaration is wanted.declaration
        and len(of.arguments) == len(wanted.arguments)
        and all(fits(a, w) for a, w in zip(of.arguments, wanted.arguments, strict=True))
    )


def _merge(a: Type, b: Type) -> Type | None:
    """Return the type to which both types can be converted, or None."""
    if a == b:
        return a
    for one, other in ((a, b), (b, a)):
        if one is types.INTEGER and isinstance(other, types.Bits):
            return other
        if isinstance(one, types.SerializableEnum) and one.underlying == other:
            return other
        if isinstance(one, (types.Tuple, types.AnonymousStruct)) and isinstance(
            other, types.StructLike
        ):
            return other
    if isinstance(a, types.Tuple) and isinstance(b, types.Tuple):
        if len(a.elements) != len(b.elements):
            return None
        merged = [_merge(x, y) for x, y in zip(a.elements, b.elements, strict=True)]
        known = [m for m in merged if m is not None]
        return types.Tuple(tuple(known)) if len(known) == len(merged) else None
    return None
