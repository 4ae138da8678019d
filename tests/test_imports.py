"""Import rules: for each part of the project, the parts that it may import."""

from pathlib import Path

import import_map
import pytest

BASICS = [f"minip4.engine.{name}" for name in ("errors", "model", "words", "keys",
                                               "shared", "limits")]  # fmt: skip
MAY_IMPORT = {
    # Keys are folders or modules, and values are the parts that they may import. If several keys
    # match a module, the longest one counts.
    "minip4.errors": [],
    "minip4.native": ["minip4.errors"],
    "minip4.wire": ["minip4.native"],
    "minip4.ports": ["minip4.errors", "minip4.native", "minip4.wire"],
    **{name: ["minip4.errors", "minip4.native", "minip4.wire", *BASICS] for name in BASICS},
    "minip4.engine.reader": BASICS,
    "minip4.engine.codegen": ["minip4.wire", *BASICS],
    "minip4.engine.control": ["minip4.wire", "minip4.engine.codegen", "minip4.engine.library",
                              *BASICS],
    "minip4.engine": ["minip4.errors", "minip4.native", "minip4.wire", "minip4.ports",
                      "minip4.engine"],
    "minip4.compiler": ["minip4.errors"],
    "minip4.link": ["minip4.errors", "minip4.native", "minip4.wire", "minip4.ports"],
    "minip4.simulator": ["minip4.errors", "minip4.native", "minip4.wire", "minip4.engine"],
    "minip4.stf": ["minip4.errors", "minip4.compiler", "minip4.engine"],
    # The runtime may import the protocol of data planes, and the types of their values.
    "minip4.runtime.status": ["minip4.engine.errors"],
    "minip4.runtime.dataplane": ["minip4.engine.keys", "minip4.engine.model"],
    "minip4.runtime.p4info": ["minip4.runtime.status", "minip4.engine.keys",
                              "minip4.engine.model"],
    "minip4.runtime.entities": ["minip4.runtime.status", "minip4.runtime.dataplane",
                                "minip4.runtime.p4info", "minip4.engine.errors",
                                "minip4.engine.keys"],
    "minip4.runtime.service": ["minip4.errors", "minip4.runtime.status",
                               "minip4.runtime.dataplane", "minip4.runtime.p4info",
                               "minip4.runtime.entities", "minip4.engine.errors"],
    "minip4.runtime.switch": ["minip4.errors", "minip4.runtime.status",
                              "minip4.runtime.dataplane", "minip4.runtime.service",
                              "minip4.engine.shared", "minip4.wire.shared",
                              "minip4.runtime.switch.process"],
    "minip4.runtime.switch.process": ["minip4.errors", "minip4.engine.engine", "minip4.ports",
                                      "minip4.runtime"],
    "minip4.runtime.switch.tracing": ["minip4.errors", "minip4.engine"],
    "minip4.runtime.virtual": ["minip4.errors", "minip4.engine.engine", "minip4.simulator",
                               "minip4.runtime"],
    "minip4.runtime.client": ["minip4.errors", "minip4.runtime.p4info",
                              "minip4.runtime.service.tls", "minip4.runtime.switch"],
    "minip4": ["minip4"],
    "telemark": ["minip4"],
    "topologies": ["telemark"],
    "controllers": ["telemark"],
    # These controllers manage programs at host edges as well as programs of switches.
    "controllers.ampm.edge": ["controllers", "ebpf.edge", "telemark"],
    "controllers.int.edge": ["controllers", "ebpf.edge", "telemark"],
    # The formats of options are those of the collector.
    "controllers.ioam": ["controllers", "collectors.ioam", "telemark"],
    "controllers.dta.manager": ["controllers", "collectors", "telemark"],
    "importers": ["controllers", "telemark", "minip4.errors", "minip4.runtime.switch.control"],
    # Of minip4, collectors may import only the builds of C code, and the records of received
    # packets.
    "collectors": ["telemark", "minip4.native", "minip4.simulator"],
    "ebpf": ["telemark", "minip4.errors", "minip4.native"],
    "experiments": ["controllers", "collectors", "ebpf", "topologies", "telemark",
                    "minip4.native", "minip4.simulator", "experiments.shared.xdp.switching",
                    "experiments.shared.tna"],
    # It runs published programs, some without a network, and reads all cells of their registers.
    "experiments.shared.tna": ["experiments", "controllers", "telemark", "minip4.compiler",
                               "minip4.engine"],
    # It compares a switch in this process with XDP programs on one core.
    "experiments.shared.xdp.switching": ["experiments", "ebpf", "telemark", "minip4.compiler",
                                         "minip4.engine", "minip4.ports"],
    "benchmarks": ["importers", "controllers", "collectors", "ebpf", "topologies", "telemark",
                   "minip4"],
}  # fmt: skip


def within(name: str, parts: list[str]) -> str | None:
    """Return the longest of these parts that contains a module, or None."""
    return max((p for p in parts if name == p or name.startswith(p + ".")), key=len, default=None)


def wrong(module: str, imported: str) -> bool:
    parts = [*MAY_IMPORT]
    own = within(module, parts)
    assert own is not None, f"{module}: add it to the table"
    return within(imported, parts) != own and within(imported, MAY_IMPORT[own]) is None


def test_no_import_goes_against_the_order() -> None:
    known = import_map.modules()
    found = {
        (module, imported)
        for module, path in known.items()
        for imported in import_map.imports(path, known)
        if wrong(module, imported)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("minip4.engine.engine", "minip4.compiler.cli"),
        ("minip4.compiler.parse", "minip4.engine.errors"),
        ("minip4.runtime.entities.tables", "minip4.engine.engine"),
        ("minip4.runtime.switch.control", "minip4.engine.engine"),
        ("minip4.runtime.service.device", "minip4.runtime.switch.process"),
        ("minip4.native.build", "minip4.engine.errors"),
        ("minip4.engine.limits", "minip4.engine.codegen.layout"),
        ("minip4.engine.codegen.layout", "minip4.engine.control.core"),
        ("minip4.engine.reader.program", "minip4.engine.codegen.layout"),
        ("minip4.stf.cli", "telemark.errors"),
        ("telemark.network", "controllers.connection"),
        ("controllers.routing", "topologies.basic"),
        ("collectors.int.decoder", "controllers.connection"),
        ("collectors.int.decoder", "minip4.engine.engine"),
        ("telemark.accounting.packet_accounting", "ebpf.loader"),
    ],
)
def test_forbidden_imports_are_found(module: str, imported: str) -> None:
    assert wrong(module, imported)


def test_the_table_has_no_parts_that_are_not_there() -> None:
    known = import_map.modules()
    parts = {*MAY_IMPORT, *(each for allowed in MAY_IMPORT.values() for each in allowed)}
    assert {part for part in parts if not any(within(name, [part]) for name in known)} == set()


def test_imports_of_all_kinds_are_found(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(
        "import minip4.errors\nimport os, telemark\nfrom minip4.native import build, address\n"
        "from minip4 import engine\ndef f():\n    from telemark.session.run import Run\n"
    )
    known = ("minip4", "minip4.errors", "minip4.native", "minip4.native.build", "minip4.engine",
             "telemark", "telemark.session.run")  # fmt: skip
    assert sorted(import_map.imports(path, known)) == [
        "minip4.engine", "minip4.errors", "minip4.native", "minip4.native.build", "telemark",
        "telemark.session.run",
    ]  # fmt: skip
