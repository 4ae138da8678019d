"""Run the examples and solved exercises of p4-learning (p4app.json) and check their output.

    sudo python benchmarks/compatibility/p4_learning.py CLONE [--target bmv2] [--time virtual]

CLONE is a clone of p4-learning. `telemark run` runs each network with a script of commands from its
README (only pings in virtual time). On bmv2, simple_switch_CLI reads the registers. The exit status
is 1 if the output of a network differs from the description in its README.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.compatibility.shared import telemark_run
from benchmarks.compatibility.shared.telemark_run import (
    ALL_ANSWERED,
    PINGALL,
    Expected,
    find_connected_runs,
    start_receiver,
    wait_for_text,
)

FRAMES = f"python3 {Path(__file__).parent / 'shared' / 'print_frames.py'}"
REGISTER_READ = {  # Thrift port of switch s1
    "minip4": r"sh minip4 tables \1",
    "bmv2": r"sh echo register_read \1 | simple_switch_CLI --thrift-port 9091",
}
ETHERTYPE, IP_TOS, IP_PROTOCOL = slice(12, 14), 15, 23  # offsets of fields in a frame
MARK = bytes.fromhex("1234")  # EtherType of broadcasts
IPV4 = bytes.fromhex("0800")
TCP, UDP = 6, 17
HOSTS = ("h1", "h2", "h3", "h4")
LINKS = [f"s1-eth{port}" for port in (2, 3, 4, 5)]  # interfaces of the equal-cost links of s1


@dataclass(frozen=True)
class Network:
    """One run of a network, with commands and expected output.

    _commands() replaces `register_read NAME` (of switch s1) and {frames}.
    """

    file: str
    commands: str
    expected: tuple[Expected, ...]

    @property
    def is_virtual(self) -> bool:
        """Return whether the run is useful without programs on hosts."""
        return PINGALL in self.commands.splitlines()


# --- commands --------------------------------------------------------------------------------

SENT = """sh awk '/s[0-9]-eth/ {print "sent", $1, $11}' /proc/net/dev"""


def record_frames(*hosts: str) -> str:
    """Return the commands that record the frames received by these hosts."""
    begin = [f"{host} {{frames}} {host}-eth0 > $TMPDIR/{host} &" for host in hosts]
    return "\n".join([*begin, *(wait_for_text("listening", host) for host in hosts)])


def show_frames(*hosts: str) -> str:
    """Return the command that prints the recorded frames, each after the name of its host."""
    return f"sh sleep 1; cd $TMPDIR; grep . /dev/null {' '.join(hosts)}"


def send_frames(host: str, frame: str, count: int = 1, interval_s: float = 0) -> str:
    """Return the command that sends frames from a host."""
    send = f"sendp({frame}, iface='{host}-eth0', count={count}, inter={interval_s}, verbose=0)"
    return f'{host} python3 -c "from scapy.all import *; {send}"'


# --- checks ----------------------------------------------------------------------------------


def parse_frames(output: str, host: str) -> list[bytes]:
    """Return the frames received by a host."""
    return [bytes.fromhex(line) for line in re.findall(rf"^{host}:([0-9a-f]+)$", output, re.M)]


def select_packets(output: str, host: str, protocol: int) -> list[bytes]:
    """Return the received IPv4 packets with this protocol number."""
    return [frame for frame in parse_frames(output, host)
            if frame[ETHERTYPE] == IPV4 and frame[IP_PROTOCOL] == protocol]  # fmt: skip


def count_sent(output: str, interface: str) -> list[int]:
    """Return the numbers of frames that an interface sent between consecutive readings."""
    counts = [int(count) for count in re.findall(rf"^sent {interface}: (\d+)$", output, re.M)]
    return [after - before for before, after in pairwise(counts)]


def parse_cells(output: str) -> dict[int, int]:
    """Return the nonzero cells of a register, printed by minip4 or by simple_switch_CLI."""
    listed = re.search(r"^RuntimeCmd: \S+= (\d+(?:, \d+)*)$", output, re.M)
    if listed:
        return {index: int(cell) for index, cell in enumerate(listed[1].split(", ")) if cell != "0"}
    found = re.findall(r"^  \[(\d+)\] (\d+) \(", output, re.M)
    return {int(index): int(value) for index, value in found}


def compare(found: object, expected: object, what: str) -> str | None:
    return None if found == expected else f"{what}: {found}"


def check_received(protocol: int, expected: int, output: str) -> str | None:
    """Check the number of packets received by h2."""
    return compare(
        len(select_packets(output, "h2", protocol)), expected, f"h2's of protocol {protocol}"
    )


def check_recirculations(expected: Callable[[int], int], output: str) -> str | None:
    """Check that all recirculations wrote their cells and that no other cells are written."""
    return compare(parse_cells(output), {i: expected(i) for i in range(201)}, "cells")


def check_tos_cells(output: str) -> str | None:
    """Check two cells: for the ToS of the packet, and for that of the ICMP error from h2."""
    # ToS of an ICMP error of Linux (icmp_send): IPTOS_TOS_MASK, IPTOS_PREC_INTERNETCONTROL
    answer = 50 & 0x1E | 0xC0
    return compare(parse_cells(output), {tos: tos for tos in (50, answer)}, "cells")


def check_reflection(output: str) -> str | None:
    """Check that all frames came back with swapped MAC addresses."""
    own = re.search(r"^h1-eth0@?\S* +\S+ +([0-9a-f:]{17})", output, re.M)
    came = re.findall(r"Info: (\S+) -> (\S+)", output)
    mac = own[1] if own else None
    return compare({*came}, {("00:01:02:03:04:05", mac)}, f"to {mac} came")


def count_broadcasts(output: str) -> list[int]:
    """Return the number of broadcasts received by each host."""
    return [sum(frame[ETHERTYPE] == MARK for frame in parse_frames(output, host)) for host in HOSTS]


def check_flooding(expected: list[int], output: str) -> str | None:
    return compare(count_broadcasts(output), expected, "h1 to h4 received")


def check_multicast(output: str) -> str | None:
    """Check that all hosts received all of several broadcasts."""
    counts = count_broadcasts(output)
    return None if counts[0] > 1 and len({*counts}) == 1 else f"h1 to h4 received: {counts}"


def check_balance(output: str) -> str | None:
    """Check that all 200 packets were delivered, and that each link carried at least a tenth."""
    counts = [count_sent(output, link)[-1] for link in LINKS]
    ok = sum(counts) == 200 and min(counts) >= 20
    return None if ok else f"packets per link: {counts}"


def check_flowlets(output: str) -> str | None:
    """Check flowlets: without gaps, most packets use one link; with gaps, all links are used."""
    dense, sparse = zip(*(count_sent(output, link) for link in LINKS), strict=True)
    ok = sum(dense) == sum(sparse) == 60 and max(dense) > 30 and min(sparse) > 0
    return None if ok else f"packets per link: {dense} without gaps, {sparse} with gaps"


def check_meter(output: str) -> str | None:
    """Check that h2 received about half of the first ten packets and all of the next five."""
    count = len(select_packets(output, "h2", UDP))
    return None if 9 <= count <= 11 else f"h2 received {count}"


def check_routes(output: str) -> str | None:
    """Check that the first packet took s2, the second took s3, and h2 received both."""
    counts = [count_sent(output, interface) for interface in ("s2-eth2", "s3-eth2")]
    wrong = compare(counts, [[1, 0], [0, 1]], "packets from s2 and s3")
    return wrong or check_received(UDP, 2, output)


def check_trace(output: str) -> str | None:
    """Check that both switches added themselves to the IP option, the last switch first."""
    hops = re.findall(r"swid *= (\d+)[^=]*= \d+[^=]*portid *= (\d+)", output)
    counted = re.findall(r"count *= (\d+)", output)
    return compare(
        (counted, hops), (["2"], [("2", "1"), ("1", "2")]), "count, and switches and ports"
    )


def check_ecn(output: str) -> str | None:
    """Check that ECN is 1 before the queue builds up and then 3."""
    seen = [frame[IP_TOS] & 3 for frame in select_packets(output, "h3", UDP)]
    turns = [a for a, b in zip(seen, [None, *seen], strict=False) if a != b]
    return compare(turns, [1, 3], "ECN of packets received by h3")


def check_firewall(output: str) -> str | None:
    """Check that TCP connects from inside to outside, but not from outside to inside."""
    return compare(find_connected_runs(output), (True, False), "iperf connected")


# --- the networks ----------------------------------------------------------------------------


def make_network(file: str, commands: str = "", *expected: Expected) -> Network:
    """Return a network whose hosts ping each other before further commands."""
    return Network(file, f"{PINGALL}\n{commands}", (ALL_ANSWERED, *expected))


def reflector(file: str, script: str) -> Network:
    typed = "(for i in 1 2 3 4 5; do sleep 1; echo; done)"
    commands = f"h1 ip -br link show h1-eth0\nh1 {typed} | python3 -u {script} 2> /dev/null"
    return Network(file, commands, (check_reflection,))


def flooding(file: str, expected: list[int]) -> Network:
    broadcast = send_frames("h1", "Ether(src=get_if_hwaddr('h1-eth0'), dst='ff:ff:ff:ff:ff:ff', "
                            "type=0x1234) / ('x' * 50)")  # fmt: skip
    commands = f"{record_frames(*HOSTS)}\n{broadcast}\n{show_frames(*HOSTS)}"
    return make_network(file, commands, partial(check_flooding, expected))


def several_links(file: str, sender: str) -> Network:
    send = f"h1 python3 {sender} 10.0.6.2 200 > /dev/null"
    return make_network(file, f"{SENT}\n{send}\nsh sleep 1\n{SENT}", check_balance)


def flowlets(file: str, sender: str) -> Network:
    """Return a network in which packets are sent without gaps, and then with gaps.

    The gaps are longer than 100 ms and than 200 ms.
    """
    send = [f"h1 python3 {sender} 10.0.6.2 60 {gap_s} > /dev/null" for gap_s in (0, 0.25)]
    commands = "\n".join([SENT, send[0], "sh sleep 1", SENT, send[1], "sh sleep 1", SENT])
    return make_network(file, commands, check_flowlets)


def heavy_hitter(file: str) -> Network:
    send = "h1 python3 send.py 10.0.2.2 1500 > /dev/null"
    commands = "\n".join([record_frames("h2"), send, show_frames("h2")])
    return make_network(file, commands, partial(check_received, TCP, 1000))


def counters(file: str, counted: str) -> Network:
    read = "sh sleep 1\nsh minip4 tables"
    expected = (" 0 received", rf"{counted}.* 3 packets, 294 bytes")
    return Network(file, f"h1 ping -c 3 -i 0.3 -W 1 h2\n{read}", expected)


def meters(file: str) -> Network:
    """Return a network with meters. Rates are integers, so rates and intervals are doubled."""
    frame = "Ether(src='aa:aa:aa:aa:aa:aa', dst='00:00:0a:00:00:02') / IP(dst='10.0.1.2') / UDP()"
    commands = [record_frames("h2"), send_frames("h1", frame, 10, 0.5), "sh sleep 2",
                send_frames("h1", frame, 5, 1.2), show_frames("h2")]  # fmt: skip
    return Network(file, "\n".join(commands), (" rounded from 0.5 to 1 per second:", check_meter))


CHECKSUMS = f"""
{record_frames("h2")}
h1 python3 send.py 10.0.1.2 valid > /dev/null
h1 python3 send.py 10.0.1.2 invalid > /dev/null
h1 python3 send.py 10.0.1.2 invalid > /dev/null
{show_frames("h2")}
"""
BROADCAST = f"""
{record_frames(*HOSTS)}
h1 timeout 7 python3 send.py
{show_frames(*HOSTS)}
"""
TRACED = f"""
{start_receiver("h2")}
h1 python3 send.py 10.0.2.2 test 1 > /dev/null
{wait_for_text("swid", "h2")}
sh sleep 1; cat $TMPDIR/h2
"""
ROUTED = f"""
{record_frames("h2")}
{SENT}
h1 printf '2 4\\nq\\n' | python3 send.py 10.0.4.2 > /dev/null
sh sleep 1
{SENT}
h1 printf '3 4\\nq\\n' | python3 send.py 10.0.4.2 > /dev/null
sh sleep 1
{SENT}
{show_frames("h2")}
"""
FLOW = """import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); s.setsockopt(0, 1, 1); \
[(s.sendto(bytes(1400), ('10.1.3.2', 5051)), time.sleep(0.002)) for _ in range(400)]"""
CONGESTED = f"""
{record_frames("h3")}
h1 python3 -c "{FLOW}"
sh sleep 4
{show_frames("h3")}
"""
AROUND = "h1 python3 send.py 10.0.1.2 200 > /dev/null\nsh sleep 2\nregister_read"
PASSING = f"""
{record_frames("h2")}
{send_frames("h1", "Ether(dst='00:00:0a:00:00:02') / IP(dst='10.0.0.2') / UDP() / ('x' * 40)", 2)}
{show_frames("h2")}
"""
NETWORKS = [
    reflector("examples/reflector/p4app.json", "send_receive.py"),
    reflector("exercises/01-Reflector/solution/p4app.json", "../send_receive.py"),
    make_network("examples/repeater/p4app.json"),
    make_network("exercises/02-Repeater/thrift/solution/p4app.json"),
    make_network("exercises/02-Repeater/thrift/solution/p4app_table.json"),
    make_network("examples/ip_forwarding/p4app.json"),
    make_network("examples/ip_forwarding_two_tables/p4app.json"),
    make_network("examples/ternary_match/p4app.json"),
    make_network("examples/debugging_table/p4app.json"),
    make_network("exercises/03-L2_Basic_forwarding/thrift/solution/p4app.json"),
    flooding("exercises/03-L2_Flooding/thrift/solution/p4app-all-ports.json", [1, 1, 1, 1]),
    flooding("exercises/03-L2_Flooding/thrift/solution/p4app-other-ports.json", [0, 1, 1, 1]),
    make_network("exercises/04-MPLS/thrift/mpls_basics/solution/p4app.json"),
    make_network("exercises/04-MPLS/thrift/mpls_stacked/solution/p4app.json"),
    several_links("examples/ecmp/p4app.json", "send.py"),
    several_links("exercises/05-ECMP/solution/p4app.json", "../send.py"),
    flowlets("examples/flowlet_switching/p4app.json", "send.py"),
    flowlets("exercises/05-Flowlet_Switching/solution/p4app.json", "../send.py"),
    heavy_hitter("examples/heavy_hitter/p4app.json"),
    heavy_hitter("exercises/06-Heavy_Hitter_Detector/solution/p4app.json"),
    counters("examples/counter/p4app_direct.json", "port=0x001 "),
    counters("examples/counter/p4app_indirect.json", r"\[1\]"),
    meters("examples/meter/p4app_direct.json"),
    meters("examples/meter/p4app_indirect.json"),
    Network("examples/verify_checksum/p4app.json", CHECKSUMS, (partial(check_received, 1, 1),)),
    make_network("examples/multicast/p4app.json", BROADCAST, check_multicast),
    Network("examples/simple_int/p4app.json", TRACED, (check_trace,)),
    Network("examples/source_routing/p4app.json", ROUTED, (check_routes,)),
    make_network("examples/ecn/p4app.json", CONGESTED, check_ecn),
    Network("examples/stateful_firewall/p4app.json", "iperf h1 h2\niperf h2 h1", (check_firewall,)),
    Network("examples/resubmit_recirculate/resubmitApp.json", f"{AROUND} resubmit_register",
            (partial(check_recirculations, lambda _: 255),)),
    Network("examples/resubmit_recirculate/recirculateApp.json", f"{AROUND} recirculate_register",
            (partial(check_recirculations, lambda index: 255 - index),)),
    Network("examples/recirculate/p4app.json", PASSING, (partial(check_received, UDP, 2),)),
    Network("examples/read_write_registers_cli/p4app.json",
            "h1 python3 send.py 10.0.1.2 50 > /dev/null\nsh sleep 2\nregister_read tos_register",
            (check_tos_cells,)),
]  # fmt: skip


def main() -> int:
    options = telemark_run.make_parser(__doc__, "p4-learning").parse_args()
    chosen = [
        network for network in NETWORKS
        if options.only in (None, network.file) and (network.is_virtual or options.time == "real")
    ]  # fmt: skip
    missing = [network.file for network in chosen if not (options.clone / network.file).is_file()]
    if missing or not chosen:
        telemark_run.make_parser(__doc__, "").error(
            f"{options.clone}: the folder has no {', '.join(missing[:1]) or 'such network'}; pass "
            "a clone"
        )
    verdicts = []
    for network in chosen:
        verdicts.append(_verdict(network, options))
        print(f"{network.file:64} {verdicts[-1]}", flush=True)
    return telemark_run.print_summary(verdicts, options)


def _verdict(network: Network, options: argparse.Namespace) -> str:
    file = options.clone / network.file
    if options.time == "virtual":
        return telemark_run.run_and_check(file, PINGALL, [ALL_ANSWERED], options)
    commands = _commands(network.commands, options.target)
    return telemark_run.run_and_check(file, commands, network.expected, options)


def _commands(commands: str, target: str) -> str:
    """Replace `register_read` and {frames} by the commands of the target."""
    read = re.sub(r"^register_read (\S+)$", REGISTER_READ[target], commands, flags=re.MULTILINE)
    return read.replace("{frames}", FRAMES)


if __name__ == "__main__":
    sys.exit(main())
