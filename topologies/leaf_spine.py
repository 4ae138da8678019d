"""Leaf-spine fabrics, either with two tiers or with pods and a core tier; and fat-trees."""

from dataclasses import dataclass
from itertools import pairwise

from mininet.topo import Topo

from telemark.topology.routes import Route


@dataclass(frozen=True)
class Place:
    """Position of a switch in the fabric. Numbers start at 0."""

    tier: str  # leaf, spine or core
    pod: int  # number of the pod; it is 0 for a core switch
    number: int  # number of the switch within its pod and tier


class LeafSpine(Topo):
    """Leaf-spine fabric of `pods` pods. In each pod, every leaf is linked to every spine.

    There are `cores` core switches for each spine number. All spines with this number, one per pod,
    are linked to these core switches. A single pod needs no core. Each leaf has `hosts` hosts;
    their addresses are 10.POD.LEAF.HOST. Switches are numbered s1, s2, ... pod by pod; in each pod,
    leaves precede spines. The core switches have the last numbers. Link parameters apply to all
    links between switches. Raises ValueError for invalid numbers.
    """

    def build(
        self, leaves: int = 4, spines: int = 2, hosts: int = 1, pods: int = 1, cores: int = 0,
        **link: float | str,
    ) -> None:  # fmt: skip
        if not (0 < leaves <= 255 and 0 < hosts < 255 and 0 < pods <= 255 and spines > 0):
            raise ValueError(
                "fabric: expected 1 to 255 pods of 1 to 255 leaves with 1 to 254 hosts"
            )
        if pods > 1 and not cores:
            raise ValueError(f"fabric: {pods} pods need core switches; set cores")
        self.places: dict[str, Place] = {}
        self._leaves, self._spines, self._cores = leaves, spines, cores
        self._pods = pods
        for pod in range(pods):
            self._build_pod(pod, leaves, spines, hosts, link)
        for spine in range(spines):
            for core in range(cores):
                name = self._add(Place("core", 0, spine * cores + core))
                for pod in range(pods):
                    self.addLink(self.switch("spine", pod, spine), name, **link)

    def _build_pod(
        self, pod: int, leaves: int, spines: int, hosts: int, link: dict[str, float | str]
    ) -> None:
        leaf_names = [self._add(Place("leaf", pod, number)) for number in range(leaves)]
        spine_names = [self._add(Place("spine", pod, number)) for number in range(spines)]
        for number, leaf in enumerate(leaf_names):
            for host in range(1, hosts + 1):
                address = f"10.{pod}.{number}.{host}"
                # number of hosts that were added before this leaf; len(topo.hosts()) would be
                # slower
                before = (pod * leaves + number) * hosts
                name = f"h{before + host}"
                self.addLink(self.addHost(name, ip=f"{address}/8"), leaf)
            for spine in spine_names:
                self.addLink(leaf, spine, **link)

    def _add(self, place: Place) -> str:
        name = f"s{len(self.places) + 1}"
        self.places[name] = place
        return str(self.addSwitch(name))

    def switch(self, tier: str, pod: int, number: int) -> str:
        """Return the name of the switch at a position."""
        if tier == "core":
            return f"s{self._pods * (self._leaves + self._spines) + number + 1}"
        first = pod * (self._leaves + self._spines) + (self._leaves if tier == "spine" else 0)
        return f"s{first + number + 1}"

    def routes(self, switch: str) -> list[Route]:
        """Return the routes of a switch to all hosts. A leaf has no routes to its own hosts."""
        place = self.places[switch]
        if place.tier == "core":
            spine = place.number // self._cores
            return [
                Route(f"10.{pod}.0.0/16", (self.switch("spine", pod, spine),))
                for pod in range(self._pods)
            ]
        if place.tier == "leaf":
            up = [self.switch("spine", place.pod, number) for number in range(self._spines)]
            return [Route("0.0.0.0/0", tuple(up))]
        first = place.number * self._cores
        up = [self.switch("core", 0, first + number) for number in range(self._cores)]
        down = [
            Route(f"10.{place.pod}.{leaf}.0/24", (self.switch("leaf", place.pod, leaf),))
            for leaf in range(self._leaves)
        ]
        return [*down, Route("0.0.0.0/0", tuple(up))] if up else down


class FatTree(LeafSpine):
    """Fat-tree of switches with k ports (Al-Fares, Loukissas and Vahdat 2008).

    The fat-tree has k pods, and (k/2)^2 core switches. Each pod has k/2 edge switches and k/2
    aggregation switches. Each edge switch has k/2 hosts. Edge switches are the leaves of a
    LeafSpine, and aggregation switches are its spines. Raises ValueError if k is odd.
    """

    def __init__(self, k: int = 4, **link: float | str) -> None:
        half, rest = divmod(k, 2)
        if rest or k < 2:
            raise ValueError(f"fat-tree: expected an even number of ports, got {k}")
        super().__init__(leaves=half, spines=half, hosts=half, pods=k, cores=half, **link)


class Backhaul(Topo):
    """Tree: h1 at the core switch s1, then `aggregation` switches, then `access` switches.

    Access switches are distributed evenly over the aggregation switches. Each access switch has one
    host (h2, h3, ...). Link parameters (telemark.topology.links) apply to all links between
    switches. Raises ValueError for invalid numbers of switches.
    """

    def build(self, access: int = 16, aggregation: int = 3, **link: float | str) -> None:
        if not 0 < aggregation <= access < 2**16:
            raise ValueError(
                "backhaul: expected 1 to 65535 access switches and at most as many aggregation "
                f"switches, got {access} and {aggregation}"
            )
        self.core = self.addSwitch("s1")
        self.server = self.addHost("h1")
        self.addLink(self.server, self.core)
        middle = [self.addSwitch(f"s{2 + number}") for number in range(aggregation)]
        for name in middle:
            self.addLink(name, self.core, **link)
        self.paths: dict[str, tuple[str, str, str]] = {}
        for number in range(access):
            name = self.addSwitch(f"s{2 + aggregation + number}")
            above = middle[number % aggregation]
            host = self.addHost(f"h{2 + number}")
            self.addLink(host, name)
            self.addLink(name, above, **link)
            self.paths[host] = (name, above, self.core)
        self.uplinks = {self.core: self.server} | {
            name: above for path in self.paths.values() for name, above in pairwise(path)
        }
