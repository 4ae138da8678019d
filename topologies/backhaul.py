"""Mobile backhaul: access switches, aggregation switches, and one core switch."""

from itertools import pairwise

from mininet.topo import Topo


class Backhaul(Topo):
    """Tree with h1 at the core switch s1, then `aggregation` switches, then `access` switches.

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
