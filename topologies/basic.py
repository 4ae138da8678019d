"""Small topologies: a line, a ring, a dumbbell and a parking lot.

The docstring of each class says which links get the link parameters (telemark.topology.links). The
parameters apply in each direction.
"""

from itertools import pairwise

from mininet.topo import Topo


class Line(Topo):
    """Line of switches with a host at each end: h1 - s1 - s2 - ... - h2.

    Link parameters apply to the links between switches. The default delay of these links is 1 ms.
    The links to hosts have no loss and no delay.
    """

    def build(self, switches: int = 3, **link: float | str) -> None:
        if "delay" not in link:  # Mininet's name of delay_us
            link.setdefault("delay_us", 1000)
        names = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
        self.addLink(self.addHost("h1"), names[0])
        for left, right in pairwise(names):
            self.addLink(left, right, **link)
        self.addLink(names[-1], self.addHost("h2"))


class Ring(Topo):
    """Ring of switches: s1 - s2 - ... - s1. Each switch has `hosts` hosts.

    The address of a host is 10.0.SWITCH.HOST. Link parameters apply to the links between switches.
    Raises ValueError for invalid numbers of switches or hosts.
    """

    def build(self, switches: int = 4, hosts: int = 1, **link: float | str) -> None:
        if not (3 <= switches <= 255 and 0 < hosts < 255):
            raise ValueError(
                f"ring: expected 3 to 255 switches with 1 to 254 hosts each, got {switches} and "
                f"{hosts}"
            )
        names = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
        for number, name in enumerate(names):
            for host in range(1, hosts + 1):
                address = f"10.0.{number + 1}.{host}/8"
                self.addLink(self.addHost(f"h{number * hosts + host}", ip=address), name)
        for number, name in enumerate(names):
            self.addLink(name, names[(number + 1) % switches], **link)


class Dumbbell(Topo):
    """Dumbbell: h1, h3, ... - s1 - s2 - h2, h4, .... There are `pairs` hosts on each side.

    Link parameters apply to the bottleneck, which is the link between the switches.
    """

    def build(self, pairs: int = 2, **link: float | str) -> None:
        left, right = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(left, right, **link)
        for number in range(1, 2 * pairs, 2):
            self.addLink(self.addHost(f"h{number}"), left)
            self.addLink(self.addHost(f"h{number + 1}"), right)


class ParkingLot(Topo):
    """Parking lot: h1 - s1 - ... - sN - h2.

    Switch sK also has the host xK, and s1 has the host `collector`.

    The cross traffic of link K goes from xK to xK+1. On the last link, it goes from xN to h2. Link
    parameters apply to the links of the path. Reports of switches travel in the opposite direction
    to flows from h1 to h2, so they share no queue.
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
        """Source and destination of the cross traffic, for each link of the path."""
        hosts = [f"x{number}" for number in range(1, len(self.switches()) + 1)]
        return [*pairwise([*hosts, "h2"])]
