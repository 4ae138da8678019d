"""topology.json of p4lang/tutorials (there utils/run_exercise.py): hosts, switches and links."""

import re
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from importers.host_config import parse_commands
from importers.network import GRPC_PORT, DescribedNetwork, Host, Link, Switch, TablePopulation
from importers.programs import choose_programs
from importers.switch_cli.session import CommandScript
from importers.tutorials.runtime import RuntimeFile
from telemark.json_input import Document
from telemark.topology import links
from telemark.topology.checks import MAC

PORT = re.compile(r"(.+)-p([0-9]{1,9})")
DELAY = re.compile(r"(\d+(?:\.\d+)?) *(us|ms|s|)")
MOST_PORT = 510
# Map from switch option in the file to three values: option of `minip4 switch`, minimum and
# maximum.
SWITCH_OPTIONS = {"cpu_port": ("--cpu-port", 0, MOST_PORT),
                  "priority_queues": ("--priority-queues", 1, 8)}  # fmt: skip
# keys of a switch that name a file; the name is relative to the folder of the exercise
FILES = ("runtime_json", "cli_input")


def read(document: Document, program: Path | None) -> DescribedNetwork:
    """Return the network. `program` replaces one of its programs. Raises TestbedError."""
    folder = _folder(document)
    hosts = {name: _host(name, host) for name, host in document["hosts"].nodes().items()}
    described = document["switches"].nodes(hosts)
    if not described:
        document["switches"].wrong("a switch in it")
    populations = {name: _populations(switch, folder) for name, switch in described.items()}
    stems = {name: _stem(switch, populations[name]) for name, switch in described.items()}
    programs = choose_programs(folder, stems, program)
    all_links = [_link(link, {*hosts}, {*described}) for link in document["links"].entries()]
    return DescribedNetwork(
        folder=folder,
        hosts=[*hosts.values()],
        switches=[
            Switch(name, number, GRPC_PORT + number, programs[name], populations[name],
                   _options(switch))
            for number, (name, switch) in enumerate(described.items())
        ],
        links=all_links,
        messages=[_unit_message(link, {*hosts}) for link in all_links if link.properties1],
        compiled=folder / "build",
        folders=[folder / "logs"],  # p4runtime_lib writes logs of requests here
    )  # fmt: skip


def _folder(document: Document) -> Path:
    """Return the folder of the exercise: the folder of the topology, or its parent.

    Paths in the topology are relative to the folder of the exercise.
    """
    named = [
        switch[key] for _, switch in document["switches"].items() for key in FILES
        if switch.get(key) is not None
    ]  # fmt: skip
    near = [document.path.parent, *document.path.parent.parents[:1]]
    whole = [folder for folder in near
             if all(name.file_in(folder) for name in named)]  # fmt: skip
    if whole:
        return next((folder for folder in whole if any(folder.glob("*.p4"))), whole[0])
    missing = next(name for name in named if not name.file_in(near[0]))
    return missing.wrong(f"a file below {' or '.join(map(str, near))}")


def _host(name: str, host: Document) -> Host:
    address = host["ip"]
    try:
        interface = IPv4Interface(address.text())
    except ValueError:
        interface = None
    if interface is None or "/" not in address.text():  # without "/", the length would become 32
        address.wrong('an IPv4 address with its prefix length, such as "10.0.1.1/24"')
    if not MAC.fullmatch(host["mac"].text()):
        host["mac"].wrong('a MAC address such as "08:00:00:00:01:11"')
    commands = host.get("commands")
    texts = [] if commands is None else [command.text() for command in commands.entries()]
    settings = parse_commands(texts, interface)
    return Host(
        name, interface, host["mac"].text(), settings.gateway, settings.neighbours,
        settings.others,
    )  # fmt: skip


def _populations(switch: Document, folder: Path) -> list[TablePopulation]:
    """Return the entries from both files.

    Commands come last, so they may change runtime entries.
    """
    runtime, script = (switch.get(key) for key in FILES)
    populations: list[TablePopulation] = []
    if runtime is not None:
        populations.append(RuntimeFile(Document.load(folder / runtime.text())))
    if script is not None:
        populations.append(CommandScript(folder / script.text()))
    return populations


def _stem(switch: Document, populations: list[TablePopulation]) -> str | None:
    """Return the name of the program of the switch; None if there is none.

    As in p4lang/tutorials, the program that the runtime file names takes precedence.
    """
    for population in populations:
        if isinstance(population, RuntimeFile) and population.program is not None:
            return population.program
    program = switch.get("program")
    return None if program is None else Path(program.text()).stem


def _options(switch: Document) -> list[str]:
    return [
        word for key, (option, least, most) in SWITCH_OPTIONS.items()
        if (value := switch.get(key)) is not None
        for word in (option, str(value.natural(most, least)))
    ]  # fmt: skip


def _link(link: Document, hosts: set[str], switches: set[str]) -> Link:
    """Convert [node, node, latency, bandwidth].

    Latency is a number of ms, or a string with a unit. Bandwidth is in Mbit/s. Both are optional.
    They apply in both directions, but not to traffic from hosts (see _unit_message).
    """
    parts = link.entries()
    if not 2 <= len(parts) <= 4:
        link.wrong('two ends, such as "h1" and "s1-p1", and optionally latency and bandwidth')
    (node1, port1), (node2, port2) = (_end(part, hosts, switches) for part in parts[:2])
    properties: dict[str, Any] = {}
    if len(parts) > 2 and parts[2].value is not None and (delay_us := _delay_us(parts[2])):
        properties["delay_us"] = delay_us
    if len(parts) > 3 and parts[3].value is not None:
        properties |= links.properties({"bw": parts[3].number() or None}, link.place)
    return Link(node1, node2, port1, port2, properties, properties)


def _end(end: Document, hosts: set[str], switches: set[str]) -> tuple[str, int | None]:
    name = end.text()
    if name in hosts:
        return name, None
    match = PORT.fullmatch(name)
    if match is None or match[1] not in switches or int(match[2]) > MOST_PORT:
        end.wrong(
            f"a host, or a switch with its port such as s1-p3: {', '.join([*hosts, *switches])}"
        )
    return match[1], int(match[2])


def _delay_us(latency: Document) -> float:
    """Convert a delay to us.

    A number is in ms. A string may have a unit; without a unit it is in us, as in tc.
    """
    if not isinstance(latency.value, str):
        return 1000 * latency.number()
    match = DELAY.fullmatch(latency.value)
    if match is None:
        latency.wrong('a number of ms, or a string such as "5ms"')
    return float(match[1]) * {"s": 1_000_000, "ms": 1000, "us": 1, "": 1}[match[2]]


def _unit_message(link: Link, hosts: set[str]) -> str:
    """Return a message about a link: its delay and bandwidth, as in the file and converted."""
    ours = link.properties1
    words = []
    if "delay_us" in ours:
        words.append(f"latency {ours['delay_us'] / 1000:g} ms: delay_us={ours['delay_us']:g}")
    if "rate_bps" in ours:
        words.append(f"bandwidth {ours['rate_bps'] / 1e6:g} Mbit/s: rate_bps={ours['rate_bps']}")
    towards = [
        f" (not for traffic from {node})" for node in (link.node1, link.node2) if node in hosts
    ]
    return f"link {link.node1} - {link.node2}: {', '.join(words)}{''.join(towards)}"
