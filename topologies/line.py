"""The line of the AM-PM talk: h1 - s1 - s2 - ... - h2, with the impairments between switches."""

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
