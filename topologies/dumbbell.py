"""Two switches with hosts on both sides: all that crosses shares the one link between them."""

from mininet.topo import Topo


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
