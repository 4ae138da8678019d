"""A ring of switches: there are two ways to everywhere."""

from mininet.topo import Topo


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
