"""Invalid topologies are reported in one line. Two links between the same nodes are valid."""

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from loaded import StartExperiment
from mininet.topo import Topo
from virtual_networks import WIRE, virtually

from controllers.connection import cpu_ports
from telemark.backends.real.network import MininetBackend, check_interfaces
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.topology.checks import check_cpu_ports, check_ports, device_ids

HEAD = """
from mininet.topo import Topo
from telemark.network import Network
"""


class Odd(Topo):
    """h1 - s1 - h2 with one invalid property."""

    def build(
        self, loop: bool = False, port: int = 1, port2: int | None = None, name: str = "h1",
        **host: str,
    ) -> None:  # fmt: skip
        s1 = self.addSwitch("s1")
        self.addLink(self.addHost(name, **host), s1, port2=port)
        self.addLink(self.addHost("h2"), s1, port2=port2)
        if loop:
            self.addLink(s1, s1)


class Numbered(Topo):
    """Switches in a line, with or without dpids, and hosts at both ends."""

    def build(self, **dpids: str | None) -> None:
        row = [self.addHost("h1")]
        row += [self.addSwitch(name, **({"dpid": d} if d else {})) for name, d in dpids.items()]
        for one, other in pairwise([*row, self.addHost("h2")]):
            self.addLink(one, other)


def test_switches_whose_names_have_one_number_have_numbers_of_their_own() -> None:
    names = Numbered(s1=None, t1=None, s3=None, u1=None, v2="3")
    assert device_ids(names) == {"s1": 1, "s3": 4, "t1": 5, "u1": 6, "v2": 3}
    assert device_ids(Numbered(s1=None, s2=None)) == {"s1": 1, "s2": 2}


def test_they_forward_side_by_side_in_real_time(start_experiment: StartExperiment) -> None:
    """The switches s1 and t1 get different device ids and P4Runtime ports.

    Both names contain the number 1, which normally becomes the device id and determines the port.
    """
    body = f"""
topo = Topo()
topo.addLink(topo.addSwitch("s1"), topo.addSwitch("t1"))
for number, switch in enumerate(topo.switches()):
    topo.addLink(topo.addHost(f"h{{number}}"), switch)
with Network(topo, run, program={str(WIRE)!r}) as net:
    ends = {{(each.device_id, each.grpc_address) for each in map(net.switch, ("s1", "t1"))}}
return Report([], [Check("numbers and ports", len(ends), 2)])
"""
    process = start_experiment(body, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 0, errors


@pytest.mark.parametrize(
    ("topo", "delay_us", "words"),
    [
        (Odd(ip="foo"), 0, "^host h1: ip 'foo': expected e.g. 10.0.0.1/8$"),
        (Odd(ip="10.0.0.1"), 0, "^host h1: ip '10.0.0.1': expected e.g. 10.0.0.1/8$"),
        (Odd(mac="00:00:00:00:00"), 0, "^host h1: mac '00:00:00:00:00': expected e.g."),
        (Odd(ip="10.0.0.2/8"), 0, "^host h2: ip 10.0.0.2 is used by h1; expected a unique one$"),
        (
            Odd(mac="00:00:00:00:00:02"),
            0,
            "^host h2: mac 00:00:00:00:00:02 is used by h1; expected",
        ),
        (Odd(loop=True), 0, "^link s1-s1: connects s1 to itself$"),
        (Odd(port2=1), 0, "^switch s1: port 1 is used by two links$"),
        (
            Numbered(s1="7", t1="07"),
            0,
            "^switch t1: dpid 07 is used by s1; expected a unique dpid$",
        ),
        (
            Numbered(s=None),
            0,
            "^switch s: cannot derive a device id; use a name such as s1, or set dpid$",
        ),
        (Odd(), -5, "^control_delay_us -5: expected 0 to"),
        (Odd(), float("nan"), "^control_delay_us nan: expected 0 to"),
    ],
)
def test_networks_that_cannot_be_are_refused(
    tmp_path: Path, topo: Topo, delay_us: float, words: str
) -> None:
    async def main(run: Run) -> None:
        Network(topo, run, program=WIRE, control_delay_us=delay_us).__enter__()

    with pytest.raises(TestbedError, match=words):
        virtually(tmp_path, main)


@pytest.mark.parametrize(
    "name", ["h 1", "h;id", "../h", "-h", "", "h\n", "hü", "²", "h\0", "\ud800", "h" * 65]
)
def test_names_that_a_shell_or_a_path_would_take_for_more_are_refused(
    tmp_path: Path, name: str
) -> None:
    async def main(run: Run) -> None:
        Network(Odd(name=name), run, program=WIRE).__enter__()

    with pytest.raises(TestbedError, match=r"^node .*: expected a name of up to 64 letters"):
        virtually(tmp_path, main)


@pytest.mark.parametrize(
    ("port", "target", "words"),
    [
        (511, "minip4", "switch s1: port 511: with --target minip4 expected 0 to 510"),
        (256, "bmv2", "switch s1: port 256: with --target bmv2 expected 0 to 255"),
        (510, "minip4", None),
        (254, "bmv2", None),
    ],
)  # fmt: skip
def test_ports_that_switches_have_not(port: int, target: str, words: str | None) -> None:
    topo = Odd(port=port)
    if words is None:
        check_ports(topo, target)
        return
    with pytest.raises(TestbedError) as caught:
        check_ports(topo, target)
    assert str(caught.value) == words


def test_only_tna_allows_a_link_at_the_cpu_port() -> None:
    topo = Odd(port=255)
    check_cpu_ports(topo, cpu_ports(topo), {"s1": "tna"})
    check_cpu_ports(Odd(port=254), cpu_ports(topo), {"s1": "v1model"})
    with pytest.raises(TestbedError) as caught:
        check_cpu_ports(topo, cpu_ports(topo), {"s1": "v1model"})
    assert str(caught.value) == (
        "switch s1: port 255 is the CPU port but has a link; use another port, e.g. "
        "addLink(..., port2=256)"
    )


@pytest.mark.parametrize(
    ("name", "port", "target", "interface"),
    [
        ("a-long-name", 1, "minip4", "a-long-name-eth0"),
        ("h1", 10_000_000_000, "minip4", "s1-eth10000000000"),
        ("h1", 10_000_000, "bmv2", "s1-panel10000000"),
        ("shorter-na", 1, "minip4", None),
        ("h1", 1_000_000, "bmv2", None),
    ],
)
def test_interfaces_whose_names_linux_does_not_take(
    name: str, port: int, target: str, interface: str | None
) -> None:
    topo = Odd(name=name, port=port)
    if interface is None:
        check_interfaces(topo, target)
        return
    with pytest.raises(TestbedError, match=f"its interface name {interface} exceeds 15 characters"):
        MininetBackend(cast("Any", SimpleNamespace(topo=topo, target=target))).start(ExitStack())


def test_a_link_at_the_cpu_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        topo = Odd(port=255)
        Network(topo, run, program=WIRE, switch_options=cpu_ports(topo)).__enter__()

    with pytest.raises(TestbedError, match=r"^switch s1: port 255 is the CPU port"):
        virtually(tmp_path, main)


def test_of_parallel_links_a_capture_is_named_by_its_interface(tmp_path: Path) -> None:
    class Twice(Topo):
        def build(self) -> None:
            s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
            self.addLink(self.addHost("h1"), s1)
            for _ in range(2):
                self.addLink(s1, s2, rate_bps=1e6)  # a whole number, given as a float

    async def main(run: Run) -> None:
        with Network(Twice(), run, program=WIRE) as net:
            pass
        assert net.capture("s1", "h1", "in").name == "s1-eth1_in.pcap"
        assert net.capture("s1", "s1-eth3", "in").is_file()
        words = "2 links from s1 to s2; .*: s1-eth2, s1-eth3$"
        with pytest.raises(TestbedError, match=words):
            net.capture("s1", "s2", "in")
        with pytest.raises(TestbedError, match="no link from s1 to s3"):
            net.capture("s1", "s3", "in")

    virtually(tmp_path, main)


def test_a_host_without_a_link_is_refused_in_real_time(
    start_experiment: StartExperiment,
) -> None:
    body = f"""
topo = Topo()
topo.addLink(topo.addHost("h1"), topo.addSwitch("s1"))
topo.addHost("h2")
with Network(topo, run, program={str(WIRE)!r}):
    return Report([], [])
"""
    process = start_experiment(body, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2
    assert "error: host h2: has no link" in errors.splitlines()[-1]
    assert "Traceback" not in errors
