"""The line of the AM-PM talk: h1 - s1 - s2 - ... - h2, with the impairments between switches."""

from itertools import pairwise

from mininet.topo import Topo


class Line(Topo):
    """A host at each end of a row of switches.

    `loss` (0..1) and `delay_us` are those of each link between two switches, in each direction;
    the hosts' own links neither lose nor delay.
    """

    def build(self, switches: int = 3, loss: float = 0.0, delay_us: int = 1000) -> None:
        names = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
        self.addLink(self.addHost("h1"), names[0])
        for left, right in pairwise(names):
            self.addLink(left, right, loss=loss, delay_us=delay_us)
        self.addLink(names[-1], self.addHost("h2"))
