"""Local variables of the generated C: metadata that only one function uses.

Most of a program's metadata are variables of one control. In the parsed packet, each variable would
be cleared for every packet, and each value would be stored even if nothing reads it. If they are
local variables, cc keeps the used ones in registers and removes the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from minip4.engine import model as m

MAX_CALLS = 2
"""Maximum number of calls of an action with variables. The code is repeated at each call.
"""
ELSEWHERE = "elsewhere"
STANDARD = ("standard_metadata", "intrinsic_metadata", "queueing_metadata")

Key = tuple[str, str]
"""A field: the name of its header's type and its own name."""


class Variables:
    """Local variables of the parser or a pipeline, and the ids of actions that use them.

    The variables are 0 at the start of the function, as they would be in a new parsed packet.
    `standard` are the names of the metadata that the engine reads or writes.
    """

    def __init__(self, program: m.Program, standard: tuple[str, ...] = STANDARD) -> None:
        self._instances = Counter(h.type.name for h in program.headers.values())
        self._uses: dict[Key, set[str]] = {}
        self._by_action: dict[int, set[Key]] = {}
        for i, parser in enumerate(program.parsers):
            for state in parser.states.values():
                for op in state.ops:
                    self._use(f"parser{i}", *op.args, *(op.primitive.args if op.primitive else ()))
                self._use(f"parser{i}", *state.key)
        for pipeline in program.pipelines.values():
            self._use_in_pipeline(program, pipeline)
        self._use(ELSEWHERE, *_elsewhere(program, standard))
        self.fields = frozenset(
            key for key, places in self._uses.items()
            if len(places) == 1 and ELSEWHERE not in places
        )  # fmt: skip
        self.actions = frozenset(id_ for id_, used in self._by_action.items() if used & self.fields)

    def _use_in_pipeline(self, program: m.Program, pipeline: m.Pipeline) -> None:
        calls: Counter[int] = Counter()
        actions: dict[int, m.Action] = {}
        for node in pipeline.nodes.values():
            called: tuple[m.Action, ...] = ()
            if isinstance(node, m.Conditional):
                self._use(pipeline.name, node.expr)
            elif isinstance(node, m.ActionCall):
                called = (node.action,)
            else:
                self._use(pipeline.name, *(k.expr for k in node.key))
                result = program.meters[node.meter].result if node.meter else None
                self._use(pipeline.name, *([result] if result else []))
                default = (node.default_action,) if node.default_action else ()
                called = (*node.actions, *default)
            own = {action.id: action for action in called}
            calls.update(own.keys())
            actions |= own
        for id_, action in actions.items():
            args = [arg for primitive in action.primitives for arg in primitive.args]
            self._use(pipeline.name if calls[id_] <= MAX_CALLS else ELSEWHERE, *args)
            self._by_action[id_] = {_key(ref) for arg in args for ref in _fields(arg)}

    def _use(self, where: str, *expressions: m.Expr) -> None:
        for expression in expressions:
            for ref in _fields(expression):
                header, field = ref.header, ref.field
                is_alone = header.metadata and self._instances[header.type.name] == 1
                can_be = is_alone and field.width <= 64 and not field.varbit
                self._uses.setdefault(_key(ref), set()).add(where if can_be else ELSEWHERE)
            for header in _headers(expression):
                self._use(ELSEWHERE, *(m.FieldRef(header, field) for field in header.type.fields))


def _elsewhere(program: m.Program, standard: tuple[str, ...]) -> list[m.Expr]:
    """Return the fields that other functions or the engine's core use."""
    found = [arg for d in program.deparsers for primitive in d.primitives for arg in primitive.args]
    for checksum in program.checksums:
        found += [checksum.target, *([checksum.condition] if checksum.condition else [])]
    inputs = [i for c in program.calculations.values() for i in c.inputs]
    found += [i.expr for i in inputs if i.expr is not None]
    found += [e for profile in program.profiles.values() for e in profile.selector]
    found += [e for digest in program.digests.values() for e in digest.elements]
    found += [e for fields in program.field_lists.values() for e in fields.elements]
    found += [m.HeaderRef(h) for name, h in program.headers.items() if name in standard]
    for header, field in program.aliases.values():
        instance = program.headers.get(header)
        if instance and field in instance.type.by_name:
            at = instance.type.by_name[field]
            found.append(m.FieldRef(instance, instance.type.fields[at]))
    return found


def fields_of(node: m.Table | m.Conditional | m.ActionCall) -> list[m.FieldRef]:
    """Return the fields that a node of a pipeline uses, also in its actions."""
    if isinstance(node, m.Conditional):
        return _fields(node.expr)
    actions: tuple[m.Action, ...]
    keys: tuple[m.Expr, ...] = ()
    if isinstance(node, m.ActionCall):
        actions = (node.action,)
    else:
        actions = (*node.actions, *((node.default_action,) if node.default_action else ()))
        keys = tuple(k.expr for k in node.key)
    args = [arg for a in actions for p in a.primitives for arg in p.args]
    return [ref for e in (*keys, *args) for ref in _fields(e)]


def _key(ref: m.FieldRef) -> Key:
    return ref.header.type.name, ref.field.name


def _parts(e: m.Expr) -> Iterator[m.Expr]:
    """Yield an expression and all its subexpressions."""
    yield e
    inner: tuple[m.Expr, ...] = ()
    if isinstance(e, m.Op):
        inner = e.args
    elif isinstance(e, m.Vector):
        inner = e.items
    elif isinstance(e, m.RegisterRef):
        inner = (e.index,)
    for part in inner:
        yield from _parts(part)


def _fields(e: m.Expr) -> list[m.FieldRef]:
    return [part for part in _parts(e) if isinstance(part, m.FieldRef)]


def _headers(e: m.Expr) -> list[m.Header]:
    """Return the headers that an expression uses as a whole."""
    return [part.header for part in _parts(e) if isinstance(part, m.HeaderRef)]
