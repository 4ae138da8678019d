"""The blocks of a TNA program: those of its pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.instances.names import control_plane_name, property_name
from minip4.compiler.instances.objects import Environment, ExternObject, Instance
from minip4.compiler.syntax import CallKind

GRESSES = ("ingress", "egress")
_PARSERS = {"ingress": "ig_prsr", "egress": "eg_prsr"}  # parameters of MultiParserPipeline
_COUNTING = ("Counter", "DirectCounter", "Meter", "DirectMeter")
PARSERS_OF_PIPE = 18  # each of them receives the packets of four ports


@dataclass(slots=True, eq=False)
class ParserBlock:
    """A parser and the numbers of the hardware's parsers (port / 4) that it is for.

    The first parser of a pipeline is also for all other ports.
    """

    block: str
    numbers: list[int]


@dataclass(slots=True, eq=False)
class PipelineBlocks:
    """A Pipeline. Its blocks are Architecture.blocks with the names `prefix` + "ingress" etc."""

    prefix: str  # of its blocks; it is not empty if the Switch has several pipelines
    pipes: list[int]  # numbers (port >> 7)
    environment: Environment = field(default_factory=Environment)
    parsers: dict[str, list[ParserBlock]] = field(default_factory=dict)  # of ingress and egress


class Switch(Architecture):
    """A Switch or MultiParserSwitch. One Pipeline alone processes the packets of all ports."""

    name = "tna"
    package = "Switch"

    def instantiate(self, program: syntax.Program) -> None:
        self.pipelines: list[PipelineBlocks] = []
        self.parsers = self.controls = ()
        placed = _placed_pipelines(self.main)
        taken: set[str] = set()  # names of objects in earlier pipelines
        for (name, call), pipes in placed.items():
            prefix = name if len(placed) > 1 else ""
            pipeline = PipelineBlocks(f"{prefix}.".lstrip("."), pipes)
            if any(pipeline.prefix == other.prefix for other in self.pipelines):
                raise P4Error(f"two pipelines are called {name}", call.source, "another name")
            self.pipelines.append(pipeline)
            self.globals += self.declare(program, pipeline.environment, prefix)
            blocks = self._blocks_of(pipeline, call, prefix)
            names = dict(pair for block in blocks.values() for pair in _names(block))
            for same in sorted(names.keys() & taken):
                raise P4Error(
                    f"two pipelines have an object called {same}", names[same],
                    "a @name without a dot at the start, which each pipeline extends",
                )  # fmt: skip
            taken |= names.keys()
            self.blocks |= blocks
        self.environment = self.pipelines[0].environment
        for item in self.extern_objects():
            _drop_accounting(item)

    def _blocks_of(
        self, pipeline: PipelineBlocks, call: syntax.Call, prefix: str
    ) -> dict[str, Instance]:
        arguments = _arguments(call)
        if "ghost" in arguments:
            raise P4Error(
                "the ghost thread is not supported: minip4 does not start it for changes of queues",
                arguments["ghost"].source,
                "a Pipeline of six blocks",
            )
        environment, blocks = pipeline.environment, {}
        for gress in GRESSES:
            parsers = self._parser_arguments(arguments, gress)
            pipeline.parsers[gress] = [parser for parser, *_ in parsers]
            for parser, argument, name in parsers:
                parser.block = pipeline.prefix + parser.block
                blocks[parser.block] = self.block(argument, environment, prefix, name)
                self.parsers += (parser.block,)
            for control in (gress, f"{gress}_deparser"):
                key = pipeline.prefix + control
                blocks[key] = self.block(arguments[control], environment, prefix)
                self.controls += (key,)
        return blocks

    def _parser_arguments(
        self, arguments: dict[str, syntax.Expression], gress: str
    ) -> list[tuple[ParserBlock, syntax.Expression, str]]:
        """Return each parser with its argument, and its name if that is not its declaration's."""
        block = f"{gress}_parser"
        if block in arguments:
            return [(ParserBlock(block, []), arguments[block], "")]
        package = arguments[_PARSERS[gress]]
        parsers = _arguments(_constructor_call(package))
        if len(parsers) == 1:
            (argument,) = parsers.values()
            return [(ParserBlock(block, []), argument, "")]
        declared = package.declaration if isinstance(package, syntax.Name) else None
        name = control_plane_name(declared) if declared is not None else _PARSERS[gress]
        numbers = _port_map(declared, len(parsers), package)
        return [
            (ParserBlock(f"{block}.{parameter}", own), argument, f"{name}.{parameter}")
            for (parameter, argument), own in zip(parsers.items(), numbers, strict=True)
        ]


class Switch2(Switch):
    """A Switch of Tofino 2."""

    name = "t2na"


def _drop_accounting(item: ExternObject) -> None:
    """Drop the last argument true_egress_accounting, which Tofino 2 has. It must not be true."""
    has_argument = item.type.name in _COUNTING and isinstance(item.arguments[-1], bool | None)
    if has_argument and item.arguments.pop():
        message = f"true_egress_accounting of {item.name} is not supported"
        raise P4Error(message, item.source, "false")


def _placed_pipelines(main: syntax.Instantiation) -> dict[tuple[str, syntax.Call], list[int]]:
    """Return the numbers of the pipes for the name and constructor call of each pipeline."""
    result: dict[tuple[str, syntax.Call], list[int]] = {}
    call = main.call
    for pipe, (parameter, argument) in enumerate(zip(call.parameters, call.arguments, strict=True)):
        if argument is None:
            continue
        name = parameter.name
        if isinstance(argument, syntax.Name) and argument.declaration is not None:
            name = control_plane_name(argument.declaration)
        result.setdefault((name, _constructor_call(argument)), []).append(pipe)
    return result


def _constructor_call(e: syntax.Expression) -> syntax.Call:
    """Return the constructor call of a part of `main`, which may have a name."""
    if isinstance(e, syntax.Name) and isinstance(e.declaration, syntax.Instantiation):
        return e.declaration.call
    if isinstance(e, syntax.Call) and e.kind is CallKind.CONSTRUCTOR:
        return e
    raise P4Error("this cannot be a part of a Switch", e.source, f"{e.type}(...)")


def _arguments(call: syntax.Call) -> dict[str, syntax.Expression]:
    pairs = zip(call.parameters, call.arguments, strict=True)
    return {parameter.name: argument for parameter, argument in pairs if argument is not None}


def _port_map(
    declared: syntax.Declaration | None, count: int, package: syntax.Expression
) -> list[list[int]]:
    """Return the numbers in `@default_portmap(1, {2, 3})`, a number or a list for each parser."""
    annotation = None if declared is None else declared.annotation("default_portmap")
    if annotation is None:
        raise P4Error(
            f"the ports of these {count} parsers are unknown", package.source,
            "@default_portmap(...) before a declaration of the parsers, with a number or a list "
            "of numbers (port / 4) for each parser",
        )  # fmt: skip
    result = []
    for e in annotation.body:
        values = e.constant if isinstance(e.constant, tuple) else (e.constant,)
        result.append([v for v in values if isinstance(v, int) and 0 <= v < PARSERS_OF_PIPE])
        if len(result[-1]) < len(values):
            raise P4Error(
                "@default_portmap takes numbers (port / 4)", e.source,
                f"0 to {PARSERS_OF_PIPE - 1}, or a list",
            )  # fmt: skip
    if len(result) != count:
        message = f"@default_portmap has {len(result)} values"
        raise P4Error(message, annotation.source, f"{count}, one for each parser")
    numbers = [number for own in result for number in own]
    if len(set(numbers)) < len(numbers):
        raise P4Error("a number has two parsers in @default_portmap", annotation.source)
    return result


def _names(instance: Instance) -> Iterator[tuple[str, syntax.Source]]:
    """Yield the names that the control plane uses for the objects of a block."""
    for child in instance.children:
        match child:
            case Instance():
                yield from _names(child)
            case ExternObject():
                yield child.name, child.source
            case syntax.ValueSet():
                yield control_plane_name(child, instance.name), child.source
            case syntax.Table():
                name = control_plane_name(child, instance.name)
                yield name, child.source
                for item in child.properties:
                    if isinstance(item.value, syntax.Call):
                        yield property_name(item, name), item.source
