"""Small topologies: a line, a ring, a dumbbell and a parking lot.

Link parameters (see telemark.topology.links) apply to the links named in each class, in each
direction.
"""

from itertools import pairwise

from mininet.topo import Topo


class Line(Topo):
    """A host at each end of a row of switches.

    The properties of telemark.network's links hold for each link between two switches, in each
    direction, where a millisecond is the delay else; the hosts' own links neither lose nor delay.
    """

    def build(self, switches: int = 3, **link: float | str) -> None:
        if "delay" not in link:  # Mininet's word
            link.setdefault("delay_us", 1000)
        names = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
        self.addLink(self.addHost("h1"), names[0])
        for left, right in pairwise(names):
            self.addLink(left, right, **link)
        self.addLink(names[-1], self.addHost("h2"))


class Ring(Topo):
    """s1 - s2 - ... - s1, each with `hosts` hosts: h1, h2, ... with addresses 10.0.SWITCH.HOST.

    The properties of telemark.network's links hold for the links between switches, in each
    direction. Raises ValueError for what is no ring, or has no addresses.
    """

    def build(self, switches: int = 4, hosts: int = 1, **link: float | str) -> None:
        if not (3 <= switches <= 255 and 0 < hosts < 255):
            raise ValueError(
                f"a ring has 3 to 255 switches with 1 to 254 hosts each: got {switches} and {hosts}"
            )
        names = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
        for number, name in enumerate(names):
            for host in range(1, hosts + 1):
                address = f"10.0.{number + 1}.{host}/8"
                self.addLink(self.addHost(f"h{number * hosts + host}", ip=address), name)
        for number, name in enumerate(names):
            self.addLink(name, names[(number + 1) % switches], **link)


class Dumbbell(Topo):
    """h1, h3, ... - s1 - s2 - h2, h4, ...: `pairs` hosts on each side.

    Properties of telemark.network's links hold for the one between the switches, in each direction.
    """

    def build(self, pairs: int = 2, **link: float | str) -> None:
        left, right = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(left, right, **link)
        for number in range(1, 2 * pairs, 2):
            self.addLink(self.addHost(f"h{number}"), left)
            self.addLink(self.addHost(f"h{number + 1}"), right)


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
