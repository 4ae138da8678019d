"""A parking lot: a path of switches, each of whose links also carries traffic of its own."""

from itertools import pairwise

from mininet.topo import Topo


class ParkingLot(Topo):
    """h1 - s1 - ... - sN - h2, with a host at each switch, x1 to xN, and the `collector` at s1.

    From xK to the next one, or from xN to h2, goes what crosses the K-th link alone. Those links
    have the properties of telemark.network's links; those to other hosts have none. What switches
    report goes against the flows of the path, and so shares no queue with them.
    """

    def build(self, switches: int = 5, **link: float | str) -> None:
        names = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
        self.addLink(self.addHost("h1"), names[0])
        for left, right in pairwise([*names, self.addHost("h2")]):
            self.addLink(left, right, **link)
        for number, switch in enumerate(names, start=1):
            self.addLink(self.addHost(f"x{number}"), switch)
        self.addLink(self.addHost("collector"), names[0])

    @property
    def crossings(self) -> list[tuple[str, str]]:
        """For each link of the path, the hosts between which traffic crosses it alone."""
        hosts = [f"x{number}" for number in range(1, len(self.switches()) + 1)]
        return [*pairwise([*hosts, "h2"])]
