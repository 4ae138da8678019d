"""Topology of a DTA system, and the application or the P4 program of each node."""

from dataclasses import dataclass
from pathlib import Path

from mininet.topo import Topo
from mininet.util import natural

from collectors.dta.generator import Generator
from collectors.dta.load import Load
from controllers.dta.manager.configuration import Configuration
from controllers.dta.manager.fabric import Collector, collector
from controllers.dta.stores import Store
from controllers.dta.translator import Rate, TrackedReporter, Translator
from controllers.roce.queue_pair import QueuePair

PROGRAMS = {"reporter": "p4src/dta/reporter.p4", "translator": "p4src/dta/translator.p4"}


class Links(Topo):
    """Nodes and links of a configuration."""

    def build(self, made: Configuration) -> None:
        """Build the topology. Topo calls this method with the constructor's arguments."""
        for node in made.switches:
            self.addSwitch(node)
        for node, address in addresses(made).items():
            self.addHost(node, ip=f"{address}/8")
        for first, second, properties in made.links:
            self.addLink(first, second, **properties)


def addresses(made: Configuration) -> dict[str, str]:
    """Return the IPv4 addresses of hosts: 10.0.0.1 and so on, in the order of the hosts' names."""
    hosts = sorted((node for node in made.nodes if node not in made.switches), key=natural)
    return {host: f"10.0.{n >> 8}.{n & 0xFF}" for n, host in enumerate(hosts, 1)}


@dataclass(frozen=True)
class System:
    """Programs, applications and controllers by node."""

    programs: dict[str, str]
    collectors: dict[str, Collector]
    translators: dict[str, Translator]
    # map from collector to (map from store name to the service number and the store)
    stores: dict[str, dict[str, tuple[int, Store]]]
    generators: dict[str, Generator]


def system(made: Configuration, folder: Path) -> System:
    """Create a system with store files in `folder`. Raises ValueError for invalid parameters."""
    hosts = addresses(made)
    collectors: dict[str, Collector] = {}
    translators, stores = {}, {}
    for index, (name, names) in enumerate(made.translators.items(), 1):
        sessions: list[QueuePair] = []
        services, rates = [], []
        # map from kind of store to the number of registers that stores already use
        registers: dict[type, int] = {}
        for host in names:
            areas = []
            for store, kept in made.collectors[host].items():
                first = registers.get(type(kept.kind), 0)
                registers[type(kept.kind)] = first + kept.kind.registers
                areas.append(kept.kind.area(file_of(host, store), first))
                if kept.requests_per_s is not None:
                    number = len(sessions) + len(areas)
                    rates.append(Rate(number, kept.requests_per_s, kept.burst))
            there = collector(host, hosts[host], areas, folder, first_session=len(sessions) + 1,
                              switch_address=f"10.254.{index}.1")  # fmt: skip
            collectors[host] = there
            sessions += there.sessions
            services.append(there.service)
            stores[host] = {
                store: (len(services), each)
                for store, each in zip(made.collectors[host], there.service.stores, strict=True)
            }
        translators[name] = Translator(sessions, services, tracked(made, name), rates)
    programs = {
        node: PROGRAMS["translator" if node in made.translators else "reporter"]
        for node in made.switches
    }
    generators = {
        name: Generator(sender.load, hosts[sender.to], sender.rate_per_s)
        for name, sender in made.generators.items()
    }
    return System(programs, collectors, translators, stores, generators)


def file_of(collector: str, store: str) -> str:
    """Return the file name of a store."""
    return f"{collector}.{store}"


def tracked(made: Configuration, translator: str) -> list[TrackedReporter]:
    """Return the reporters that a translator tracks.

    A translator tracks all reporters that send reports to its collectors.
    """
    hosts, own = addresses(made), made.translators[translator]
    found = [
        TrackedReporter(reporter.address, reporter.number)
        for reporter in made.reporters.values() if {*reporter.translators} & {*own}
    ]  # fmt: skip
    found += [
        TrackedReporter(hosts[name], sender.load.reporter)
        for name, sender in made.generators.items()
        if sender.to in own and isinstance(sender.load, Load)
    ]
    return found
