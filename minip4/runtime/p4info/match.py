"""Conversion of table keys and actions between P4Runtime messages and the engine.

P4Runtime spec 9.1.1 and 9.1.2.
"""

from collections.abc import Iterable, Mapping, Sequence

from finsy.proto import p4r

from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary
from minip4.runtime.p4info.schema import Action, MatchField, MatchType
from minip4.runtime.p4info.values import Values, decode, encode
from minip4.runtime.status import invalid, unimplemented

_ONEOF: dict[int, str] = {
    MatchType.EXACT: "exact",
    MatchType.LPM: "lpm",
    MatchType.TERNARY: "ternary",
    MatchType.RANGE: "range",
    MatchType.OPTIONAL: "optional",
}


def decode_key(
    owner: str, fields: Sequence[MatchField], matches: Iterable[p4r.FieldMatch]
) -> tuple[MatchKey, ...]:
    """Decode the key of an entry.

    An omitted field matches any value. The controller must not omit exact fields.
    """
    given: dict[int, p4r.FieldMatch] = {}
    for match in matches:
        if match.field_id in given:
            raise invalid(f"{owner}: match field id {match.field_id} is given twice")
        given[match.field_id] = match
    key = tuple(_decode_field(owner, f, given.pop(f.id, None)) for f in fields)
    if given:
        known = ", ".join(f"{f.id} ({f.name})" for f in fields) or "none"
        raise invalid(f"{owner}: no match field with id {min(given)}; expected one of: {known}")
    return key


def _decode_field(owner: str, match_field: MatchField, match: p4r.FieldMatch | None) -> MatchKey:
    kind, of = match_field.kind, match_field.values
    what = f"{owner}, field {match_field.name}"
    if match is None:
        return _any_value(what, match_field)
    if match.WhichOneof("field_match_type") != _ONEOF[kind]:
        found = match.WhichOneof("field_match_type") or "nothing"
        raise invalid(f"{what}: {found} match given, expected {_ONEOF[kind]}")
    if kind == MatchType.EXACT:
        return Exact(of.decode(match.exact.value, what))
    if kind == MatchType.OPTIONAL:
        return Ternary(of.decode(match.optional.value, what), _ones(of.bitwidth))
    if kind == MatchType.LPM:
        return _decode_lpm(match.lpm, of, what)
    if kind == MatchType.TERNARY:
        return _decode_ternary(match.ternary, of, what)
    return _decode_range(match.range, of, what)


def _any_value(what: str, match_field: MatchField) -> MatchKey:
    if match_field.kind == MatchType.EXACT:
        raise invalid(f"{what}: missing; exact fields are required")
    if match_field.kind == MatchType.LPM:
        return Lpm(0, 0)
    if match_field.kind == MatchType.RANGE:
        return Range(0, _ones(match_field.bitwidth))
    return Ternary(0, 0)


def _decode_lpm(match: p4r.FieldMatch.LPM, of: Values, what: str) -> Lpm:
    bitwidth = of.controller_bitwidth
    value, length = of.decode(match.value, what), match.prefix_len
    if not 0 < length <= bitwidth:
        raise invalid(
            f"{what}: prefix length {length}, expected 1 to {bitwidth} "
            "(omit the field to match any value)"
        )
    if of.exact_only:
        _check_exact(what, length == bitwidth, f"prefix length {bitwidth}")
        return Lpm(value, of.bitwidth)
    if value & _ones(bitwidth - length):
        raise invalid(f"{what}: value {value:#x} has bits set below its /{length} prefix")
    return Lpm(value, length)


def _decode_ternary(match: p4r.FieldMatch.Ternary, of: Values, what: str) -> Ternary:
    value = of.decode(match.value, what)
    mask = decode(match.mask, of.controller_bitwidth, f"{what}, mask")
    if not mask:
        raise invalid(f"{what}: mask 0; omit the field to match any value")
    if of.exact_only:
        ones = _ones(of.controller_bitwidth)
        _check_exact(what, mask == ones, f"mask {ones:#x}")
        return Ternary(value, _ones(of.bitwidth))
    if value & ~mask:
        raise invalid(f"{what}: value {value:#x} has bits set outside its mask {mask:#x}")
    return Ternary(value, mask)


def _decode_range(match: p4r.FieldMatch.Range, of: Values, what: str) -> Range:
    low = of.decode(match.low, f"{what}, low")
    high = of.decode(match.high, f"{what}, high")
    if of.exact_only:
        _check_exact(what, low == high, "a range of one value")
    if low > high:
        raise invalid(f"{what}: range {low:#x}..{high:#x} is empty")
    if low == 0 and high == _ones(of.bitwidth):
        raise invalid(f"{what}: the full range; omit the field to match any value")
    return Range(low, high)


def _check_exact(what: str, is_exact: bool, expected: str) -> None:
    """Reject any match except an exact one.

    Values of a translated type have no common bits, no prefixes and no order (spec 18.2).
    """
    if not is_exact:
        raise unimplemented(
            f"{what}: its type is translated; expected {expected}, or omit the field"
        )


def encode_key(fields: Sequence[MatchField], key: Sequence[MatchKey]) -> list[p4r.FieldMatch]:
    """Encode a key as a client would: fields that match any value are omitted."""
    matches = []
    for match_field, part in zip(fields, key, strict=True):
        match, of = p4r.FieldMatch(field_id=match_field.id), match_field.values
        if isinstance(part, Exact):
            match.exact.value = of.encode(part.value)
        elif isinstance(part, Lpm):
            if part.prefix_length == 0:
                continue
            match.lpm.value = of.encode(part.value)
            match.lpm.prefix_len = part.prefix_length + of.controller_bitwidth - of.bitwidth
        elif isinstance(part, Range):
            if (part.low, part.high) == (0, _ones(of.bitwidth)):
                continue
            match.range.low = of.encode(part.low)
            match.range.high = of.encode(part.high)
        elif part.mask == 0:
            continue
        elif match_field.kind == MatchType.OPTIONAL:
            match.optional.value = of.encode(part.value)
        else:
            is_exact = part.mask == _ones(of.bitwidth)
            mask = _ones(of.controller_bitwidth) if is_exact else part.mask
            match.ternary.value = of.encode(part.value)
            match.ternary.mask = encode(mask)
        matches.append(match)
    return matches


def decode_action(
    owner: str, allowed: Mapping[int, Action], message: p4r.Action
) -> tuple[Action, list[int]]:
    """Decode an action, with its parameters in the order of the program.

    Raises StatusError if `owner` does not allow the action.
    """
    action = allowed.get(message.action_id)
    if action is None:
        names = ", ".join(a.name for a in allowed.values()) or "none"
        raise invalid(
            f"{owner}: action id {message.action_id:#010x} is not allowed here; expected one of: "
            f"{names}"
        )
    what = f"{owner}, action {action.name}"
    given = {p.param_id: p.value for p in message.params}
    if len(given) != len(message.params):
        raise invalid(f"{what}: a parameter is given twice")
    params = []
    for param in action.params:
        value = given.pop(param.id, None)
        if value is None:
            raise invalid(f"{what}: parameter {param.name} is missing")
        params.append(param.values.decode(value, f"{what}, parameter {param.name}"))
    if given:
        known = ", ".join(f"{p.id} ({p.name})" for p in action.params) or "none"
        raise invalid(f"{what}: no parameter with id {min(given)}; expected one of: {known}")
    return action, params


def encode_action(action: Action, params: Sequence[int]) -> p4r.Action:
    message = p4r.Action(action_id=action.id)
    for param, value in zip(action.params, params, strict=True):
        message.params.add(param_id=param.id, value=param.values.encode(value))
    return message


def _ones(bitwidth: int) -> int:
    return (1 << bitwidth) - 1


def key_text(fields: Sequence[MatchField], matches: Iterable[p4r.FieldMatch]) -> str:
    """Format a key for messages as `field=value`, in the order of the table's declaration."""
    given = {match.field_id: match for match in matches}
    return ", ".join(_match_text(f, given.get(f.id)) for f in fields) or "no key"


def _match_text(match_field: MatchField, match: p4r.FieldMatch | None) -> str:
    if match is None:
        return f"{match_field.name}=*"
    digits = (match_field.values.controller_bitwidth + 3) // 4

    def text(value: bytes) -> str:
        return match_field.values.text(value, digits)

    kind = match.WhichOneof("field_match_type")
    if kind == "lpm":
        value = f"{text(match.lpm.value)}/{match.lpm.prefix_len}"
    elif kind == "ternary":
        value = f"{text(match.ternary.value)} &&& {text(match.ternary.mask)}"
    elif kind == "range":
        value = f"{text(match.range.low)}..{text(match.range.high)}"
    else:
        value = text(match.optional.value if kind == "optional" else match.exact.value)
    return f"{match_field.name}={value}"
