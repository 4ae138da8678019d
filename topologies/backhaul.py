"""A mobile operator's backhaul: cells at access switches, aggregation, and one core switch."""

from itertools import pairwise

from mininet.topo import Topo


class Backhaul(Topo):
    """A tree: h1 at the core switch s1, `aggregation` switches below it, `access` ones below these.

    Each access switch has one host, h2, h3, ...; they spread evenly over the aggregation switches.
    Link properties (telemark.topology.links) hold for all links between switches. Raises ValueError
    for more access switches than addresses, or none.
    """

    def build(self, access: int = 16, aggregation: int = 3, **link: float | str) -> None:
        if not 0 < aggregation <= access < 2**16:
            raise ValueError(
                f"a backhaul has 1 to 65535 access switches, and no more of aggregation: got "
                f"{access} and {aggregation}"
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
