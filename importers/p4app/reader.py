"""Reader of p4app.json of p4-utils: hosts, switches, links and commands."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

from importers.network import DescribedNetwork, Host, Link, Switch, TablePopulation, Task
from importers.p4app.addresses import STRATEGIES, assign, assign_rest
from importers.p4app.links import End, P4AppLink, natural_key, number_ports, sort_by_nodes
from importers.p4app.tasks import read_tasks
from importers.programs import find_program, replaced_program
from importers.switch_cli.session import CommandScript, ProgramAlone
from telemark.json_input import Document
from telemark.topology import links
from telemark.topology.checks import MAC

GRPC_PORT = 9559  # TCP port of the first switch
CPU_BRIDGE = "sw-cpu"  # node that p4-utils connects to each switch with a CPU port
MAX_PORT = 510
# Properties of links that the reader converts to the properties in telemark.topology.links. The
# reader ignores weights, because p4-utils uses weights only to compute its own routes.
LINK_PROPERTIES = ("bw", "delay", "loss", "max_queue_size")
KNOWN = {
    "": {"p4_src", "topology", "exec_scripts", "tasks_file", "cli", "pcap_dump", "enable_log",
         "switch_node", "compiler_module"},
    "topology": {"assignment_strategy", "default", "links", "hosts", "switches", "auto_gw_arp"},
    "default": {*LINK_PROPERTIES, "auto_arp_tables", "auto_gw_arp", "weight"},
    "hosts": {"defaultRoute", "scheduler", "log_enabled", "log_dir"},
    "switches": {"p4_src", "cpu_port", "cli_input", "priority_queues_num", "log_enabled",
                 "log_dir", "pcap_dump", "pcap_dir", "grpc_port"},
    "links": {*LINK_PROPERTIES, "weight", "port1", "port2", "addr1", "addr2", "params1", "params2",
              "sw_ip1", "sw_ip2"},
}  # fmt: skip
"""Supported keys of each object in the file; other keys are reported."""


def read(document: Document, program: Path | None) -> DescribedNetwork:
    """Return the network. `program` replaces one of its programs. Raises TestbedError."""
    return _Reader(document, program).network()


class _Reader:
    """Reader of one p4app.json."""

    def __init__(self, document: Document, program: Path | None) -> None:
        self._document = document
        self._topology = document["topology"]
        self._folder = document.path.parent
        self._default = _items(self._topology.get("default"))
        hosts, switches = self._topology.get("hosts"), self._topology.get("switches")
        self._hosts = {} if hosts is None else hosts.nodes()
        self._switches = {} if switches is None else switches.nodes(self._hosts)
        if not self._switches:
            self._topology.wrong("a switch in its switches")
        self._programs = self._sources(program)
        self._messages: list[str] = []

    def network(self) -> DescribedNetwork:
        self._report_unknown()
        switch_ids = {
            name: number
            for number, name in enumerate(sorted(self._switches, key=natural_key), start=1)
        }
        cpu_links = [
            P4AppLink(End(name), End(CPU_BRIDGE)) for name, switch in self._switches.items()
            if _flag(switch.get("cpu_port"), usually=False)
        ]  # fmt: skip
        p4app_links = [self._read_link(link) for link in self._topology["links"].entries()]
        number_ports([*cpu_links, *p4app_links], switch_ids)
        gateways = self._gateways() | self._assign([*cpu_links, *p4app_links], switch_ids)
        assign_rest(p4app_links, switch_ids)
        cpu_ports = {link.one.node: link.one.port for link in cpu_links}
        tasks = self._tasks()
        return DescribedNetwork(
            folder=self._folder,
            hosts=self._all_hosts(p4app_links, gateways, tasks),
            switches=[
                self._switch(name, number, cpu_ports.get(name))
                for name, number in switch_ids.items()
            ],
            links=[self._link(link) for link in p4app_links],
            messages=self._messages,
            scripts=self._scripts(),
        )

    # --- links ------------------------------------------------------------------------------

    def _read_link(self, link: Document) -> P4AppLink:
        parts = link.entries()
        if not 2 <= len(parts) <= 3:
            link.wrong('two nodes and optional properties, such as ["h1", "s1", {"bw": 10}]')
        ends = [self._end(part, number, parts) for number, part in enumerate(parts[:2], start=1)]
        given = {key: value for key, value in self._default.items() if key in LINK_PROPERTIES}
        own = _items(parts[2]) if len(parts) == 3 else {}
        given |= {key: value for key, value in own.items() if key in LINK_PROPERTIES}
        properties = {key: _property(key, value) for key, value in given.items()}
        return P4AppLink(ends[0], ends[1], links.properties(properties, link.place))

    def _end(self, node: Document, number: int, parts: Sequence[Document]) -> End:
        """Return one end of a link, with the properties that the file gives for this end."""
        name = node.text()
        if name not in self._hosts and name not in self._switches:
            node.wrong(f"one of {', '.join([*self._hosts, *self._switches])}")
        own = parts[2] if len(parts) == 3 else None
        if own is None:
            return End(name)
        port, mac = own.get(f"port{number}"), own.get(f"addr{number}")
        params, fake = own.get(f"params{number}"), own.get(f"sw_ip{number}")
        address = fake if name in self._switches else params and params.get("ip")
        return End(
            name,
            None if port is None else port.natural(MAX_PORT),
            None if mac is None else _mac(mac),
            None if address is None else str(_interface(address)),
        )

    def _link(self, link: P4AppLink) -> Link:
        """Convert a link, and report its properties.

        The properties do not apply to traffic from hosts.
        """
        if link.properties:
            given = [key for key in links.PROPERTIES if key in link.properties]
            words = ", ".join(f"{key}={link.properties[key]:.12g}" for key in given)
            towards = [f" (not for traffic from {end.node})" for end in (link.one, link.two)
                       if end.node in self._hosts]  # fmt: skip
            self._messages.append(
                f"link {link.one.node} - {link.two.node}: {words}{''.join(towards)}"
            )
        return Link(
            link.one.node, link.two.node, link.one.port, link.two.port, link.properties,
            link.properties,
        )  # fmt: skip

    # --- addresses --------------------------------------------------------------------------

    def _assign(
        self, p4app_links: Sequence[P4AppLink], switch_ids: Mapping[str, int]
    ) -> dict[str, str]:
        strategy = self._topology.get("assignment_strategy")
        if strategy is None or strategy.value == "manual":
            return {}
        if strategy.text() not in STRATEGIES:
            strategy.wrong(f"one of {', '.join(STRATEGIES)}, manual")
        ordered = [
            each for each in sort_by_nodes(p4app_links)
            if CPU_BRIDGE not in (each.one.node, each.two.node)
        ]  # fmt: skip
        return assign(strategy.text(), ordered, switch_ids)

    def _gateways(self) -> dict[str, str]:
        """Return the gateways of the hosts that have a `defaultRoute`, e.g. `via 10.0.1.1`."""
        given = {name: host.get("defaultRoute") for name, host in self._hosts.items()}
        return {name: _gateway(route) for name, route in given.items() if route is not None}

    def _all_hosts(
        self,
        p4app_links: Sequence[P4AppLink],
        gateways: Mapping[str, str],
        tasks: Mapping[str, list[Task]],
    ) -> list[Host]:
        ends = [end for link in p4app_links for end in (link.one, link.two)]
        by_host = {end.node: end for end in ends if end.node in self._hosts}
        alone = [name for name in self._hosts if name not in by_host]
        if alone:
            self._hosts[alone[0]].wrong("a link to this host in topology.links")
        hosts = []
        for name in self._hosts:
            end, gateway = by_host[name], gateways.get(name)
            assert end.address is not None
            assert end.mac is not None
            hosts.append(
                Host(
                    name, IPv4Interface(end.address), end.mac, gateway,
                    self._neighbours(end, gateway, ends), tasks=tasks.get(name, []),
                    interface=f"{name}-eth0",
                )
            )  # fmt: skip
        return hosts

    def _neighbours(self, own: End, gateway: str | None, ends: Sequence[End]) -> dict[str, str]:
        """Return the static neighbours of a host: other hosts of its subnet, and its gateway."""
        assert own.address is not None
        network, known = IPv4Interface(own.address).network, {}
        for end in ends:
            if end is own or end.address is None or end.mac is None:
                continue
            interface = IPv4Interface(end.address)
            is_host = end.node in self._hosts and interface.network == network
            is_gateway = str(interface.ip) == gateway
            if (is_host and _flag(self._default.get("auto_arp_tables"), usually=True)) or (
                is_gateway and _flag(self._default.get("auto_gw_arp"), usually=True)
            ):
                known[str(interface.ip)] = end.mac
        return known

    # --- switches ---------------------------------------------------------------------------

    def _switch(self, name: str, number: int, cpu_port: int | None) -> Switch:
        switch = self._switches[name]
        options = [] if cpu_port is None else ["--cpu-port", str(cpu_port)]
        queues = switch.get("priority_queues_num")
        if queues is not None and (count := queues.natural(8)) > 1:
            options += ["--priority-queues", str(count)]
        grpc_port = switch.get("grpc_port")
        return Switch(
            name,
            number,
            GRPC_PORT + number - 1 if grpc_port is None else grpc_port.natural(65535, 1),
            self._programs[name],
            self._populations(switch),
            options,
        )

    def _sources(self, program: Path | None) -> dict[str, Path]:
        """Return the P4 source of each switch."""
        sources = {name: self._source(switch) for name, switch in self._switches.items()}
        if program is not None:
            stem = replaced_program(program, {path.stem for path in sources.values()})
            own = find_program(program, self._folder)
            return {name: own if path.stem == stem else path for name, path in sources.items()}
        return sources

    def _source(self, switch: Document) -> Path:
        source = switch.get("p4_src") or self._document.get("p4_src")
        if source is None:
            switch.wrong("a p4_src in it, or a p4_src for all switches at the top level")
        path = source.file_in(self._folder)
        if path is None:
            source.wrong(f"a P4 program in {self._folder}")
        return path

    def _populations(self, switch: Document) -> list[TablePopulation]:
        script = switch.get("cli_input")
        if script is None:
            return [ProgramAlone()]
        path = script.file_in(self._folder)
        if path is None:
            script.wrong(f"a script of simple_switch_CLI's commands in {self._folder}")
        return [CommandScript(path)]

    # --- what runs ----------------------------------------------------------------------------

    def _scripts(self) -> list[str]:
        scripts = self._document.get("exec_scripts")
        return [] if scripts is None else [each["cmd"].text() for each in scripts.entries()]

    def _tasks(self) -> dict[str, list[Task]]:
        """Return the tasks of each host."""
        given = self._document.get("tasks_file")
        tasks: dict[str, list[Task]] = {}
        for host, task in [] if given is None else read_tasks(self._folder / given.text()):
            if host not in self._hosts:
                assert given is not None
                given.wrong(f"tasks of existing hosts: there is no host {host}")
            tasks.setdefault(host, []).append(task)
        return tasks

    def _report_unknown(self) -> None:
        """Report each unsupported key once."""
        places = [("", self._document), ("topology", self._topology)]
        places += [("default", each) for each in [self._topology.get("default")] if each]
        places += [("hosts", each) for each in self._hosts.values()]
        places += [("switches", each) for each in self._switches.values()]
        for link in self._topology["links"].entries():
            places += [("links", part) for part in link.entries()[2:3]]
        unknown = {
            (kind, key): part.where
            for kind, place in reversed(places)
            for key, part in place.items()
            if key not in KNOWN[kind]
        }
        self._messages += [f"not supported: {where}" for where in reversed(unknown.values())]


def _items(document: Document | None) -> dict[str, Document]:
    return {} if document is None else dict(document.items())


def _flag(document: Document | None, *, usually: bool) -> bool:
    return usually if document is None else document.boolean()


def _property(key: str, value: Document) -> Any:
    """Convert a property to Mininet's format. As in p4-utils, a delay without a unit is in ms."""
    if key == "delay" and not isinstance(value.value, str):
        return f"{value.number():f}ms"
    return value.text() if key == "delay" else value.number()


def _mac(value: Document) -> str:
    if not MAC.fullmatch(value.text()):
        value.wrong('a MAC address such as "00:00:0a:00:00:01"')
    return value.text().lower()


def _interface(value: Document) -> IPv4Interface:
    try:
        if "/" in value.text():  # without a "/", the prefix length would become 32
            return IPv4Interface(value.text())
    except ValueError:
        pass
    value.wrong('an IPv4 address with its prefix length, such as "10.0.1.1/24"')


def _gateway(route: Document) -> str:
    words = route.text().split()
    try:
        return str(IPv4Address(words[-1]))
    except (IndexError, ValueError):
        route.wrong('a gateway such as "via 10.0.1.1"')
