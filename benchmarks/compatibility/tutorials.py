"""Run the exercises of p4lang/tutorials with their solutions and check their output.

    sudo python benchmarks/compatibility/tutorials.py CLONE --python PYTHON [--target bmv2]
    python benchmarks/compatibility/tutorials.py CLONE --time virtual

CLONE is a clone of p4lang/tutorials. PYTHON is an interpreter with the modules that its controllers
import (p4runtime-shell 0.0.6, and p4.tmp.p4config_pb2 of p4lang/PI). `telemark run` runs each
exercise with a script of commands from its README. The exit status is 1 if the output of an
exercise differs from the description in its README.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import re
import sys
from dataclasses import dataclass

from benchmarks.compatibility.shared import telemark_run
from benchmarks.compatibility.shared.telemark_run import (
    ALL_ANSWERED,
    PINGALL,
    Expected,
    find_connected_runs,
    start_receiver,
    wait_for_text,
)

POD = "pod-topo/topology.json"
NOTHING = "- (needs programs on hosts, or a controller with sockets)"  # a verdict


@dataclass(frozen=True)
class Exercise:
    """One run of an exercise, with commands and expected output.

    `virtual` contains the commands for virtual time, and `virtually` their expected output.
    `virtual` is None if the exercise needs programs on hosts.
    """

    name: str  # folder of the exercise; or folder, comma, and name of the topology
    commands: str
    expected: tuple[Expected, ...]
    topology: str = "topology.json"
    program: str | None = None  # file in solution/; None means the program of the exercise
    virtual: str | None = PINGALL
    virtually: str = ALL_ANSWERED


def check_tunnels(output: str) -> str | None:
    """Check that h2 receives two messages: its own, and through its tunnel the message to h3."""
    received = re.findall(r"dst_id *= (\d+)|dst *= (10\.0\.[23]\.\d)", output)
    seen = [tunnel or address for tunnel, address in received]
    expected = ["10.0.2.2", "2", "10.0.2.2", "2", "10.0.3.3"]
    return None if seen == expected else f"h2 received {seen}"


def check_answers(output: str) -> str | None:
    answers = re.findall(r"^(\d+)\r?$", output, re.MULTILINE)
    return None if answers == ["2", "4", "1", "7", "6"] else f"answers {answers}"


def check_ecn(output: str) -> str | None:
    """Check that ECN is 1 before the queue builds up, 3 while it is long, and then 1 again."""
    seen = re.findall(r"tos *= (0x\d+)", output)
    turns = [a for a, b in zip(seen, [None, *seen], strict=False) if a != b]
    return None if turns == ["0x1", "0x3", "0x1"] else f"tos {turns}"


def check_queues(output: str) -> str | None:
    """Check that the queue of switch 1 was long and the queue of switch 2 was never long."""
    traces = re.findall(r"swid *= (\d+)\s*\|\s*\|\s*qdepth *= (\d+)", output)
    longest = {swid: max(int(d) for s, d in traces if s == swid) for swid, _ in traces}
    ok = longest.keys() == {"1", "2"} and longest["1"] > 10 and longest["2"] < 3
    return None if ok else f"longest queues {longest}"


def check_utilisation(output: str) -> str | None:
    """Check that probes and iperf agree on the rate of the link from switch 1."""
    rates = [float(rate) for rate in re.findall(r"Switch 1 - Port \d: ([\d.e+-]+) Mbps", output)]
    found = re.search(r"([\d.]+) ([MG])bits/sec", output)
    if not rates or found is None:
        return "no probes" if not rates else "no iperf"
    iperf = float(found[1]) * (1000 if found[2] == "G" else 1)
    ok = 0.8 < max(rates) / iperf < 1.25
    return None if ok else f"probes report {max(rates):.1f} Mbit/s, iperf reports {iperf:g}"


def check_balance(output: str) -> str | None:
    counts = [int(count) for count in re.findall(r"^(\d+)\r?$", output, re.MULTILINE)]
    ok = len(counts) == 2 and sum(counts) == 8 and min(counts) > 0
    return None if ok else f"h2 and h3 received {counts}"


def check_firewall(output: str) -> str | None:
    """Check that TCP connects from inside to outside, but not from outside to inside."""
    connected = find_connected_runs(output)
    return None if connected == (True, True, False) else f"iperf connected: {connected}"


SEND = './send.py 10.0.2.2 "P4 is cool"'
QUIET = "> $TMPDIR/sent 2>&1"
CONTROLLER = "sh PYTHONPATH=../../utils {python} -u solution/mycontroller.py > $TMPDIR/said 2>&1 &"
BOTTLENECK = f"""
h22 iperf -s -u > $TMPDIR/h22 &
{start_receiver("h2")}
h1 {SEND} 30 {QUIET} &
{wait_for_text("tos", "h2")}
sh sleep 2
h11 iperf -c 10.0.2.22 -t 15 -u
h1 wait
sh cat $TMPDIR/h2
"""
TUNNELS = f"""
{start_receiver("h2")}
h1 {SEND} {QUIET}
h1 {SEND} --dst_id 2 {QUIET}
h1 ./send.py 10.0.3.3 "P4 is cool" --dst_id 2 {QUIET}
sh sleep 1
sh egrep "dst_id|dst .*10[.]" $TMPDIR/h2
"""
P4RUNTIME = f"""
{CONTROLLER}
{wait_for_text("Reading tunnel", "said")}
h1 ping -c 5 h2
sh sleep 3
sh tail -n 12 $TMPDIR/said
"""
PROBES = f"""
h4 iperf -s > $TMPDIR/h4 &
{start_receiver("h1")}
h1 ./send.py {QUIET} &
{wait_for_text("Switch", "h1")}
h1 iperf -c 10.0.4.4 -t 8 -b 4M
sh sleep 3
sh cat $TMPDIR/h1
"""
ROUTED = f"""
{start_receiver("h2")}
h1 printf '2 3 2 2 1\\nq\\n' | ./send.py 10.0.2.2 {QUIET}
sh sleep 1
sh cat $TMPDIR/h2
"""
CALCULATED = r"h1 printf '1+1\n7-3\n5&3\n5|3\n5^3\nquit\n' | python3 calc.py"
BALANCED = f"""
{start_receiver("h2")}
{start_receiver("h3")}
h1 for i in 1 2 3 4 5 6 7 8; do ./send.py 10.0.0.1 "P4 is cool" {QUIET}; done
sh sleep 1
sh grep -c "got a packet" $TMPDIR/h2; grep -c "got a packet" $TMPDIR/h3
"""
PRIORITIES = f"""
{start_receiver("h2")}
h1 ./send.py --p=UDP --des=10.0.2.2 --m="P4 is cool" --dur=2 {QUIET}
h1 ./send.py --p=TCP --des=10.0.2.2 --m="P4 is cool" --dur=2 {QUIET}
sh sleep 1
sh grep tos $TMPDIR/h2
"""
FLOWS = f"""
{CONTROLLER}
{wait_for_text("on s3", "said")}
sh sleep 1
h1 ping -c 8 h2
sh tail -n 30 $TMPDIR/said
"""
COUNTED = tuple(
    f"{counter}: [1-9]"
    for counter in (
        "s1 MyIngress.ingressTunnelCounter 100",
        "s2 MyIngress.egressTunnelCounter 100",
        "s2 MyIngress.ingressTunnelCounter 200",
        "s1 MyIngress.egressTunnelCounter 200",
    )
)
EXERCISES = [
    Exercise("basic", PINGALL, (ALL_ANSWERED,), POD, "basic.p4"),
    Exercise("basic, triangle", PINGALL, (ALL_ANSWERED,), "triangle-topo/topology.json",
             "basic.p4"),
    Exercise("basic_tunnel", TUNNELS, (check_tunnels,), program="basic_tunnel.p4"),
    Exercise("p4runtime", P4RUNTIME, (" 5 received", *COUNTED), virtual=None),
    Exercise("ecn", BOTTLENECK, (check_ecn,), program="ecn.p4"),
    Exercise("mri", BOTTLENECK, (check_queues,), program="mri.p4"),
    Exercise("link_monitor", PROBES, (check_utilisation,), POD, "link_monitor.p4"),
    Exercise("source_routing", ROUTED, ("got a packet", "ttl *= 59"),
             program="source_routing.p4", virtual=None),
    Exercise("calc", CALCULATED, (check_answers,), program="calc.p4", virtual=None),
    Exercise("load_balance", BALANCED, (check_balance,), program="load_balance.p4", virtual=None),
    Exercise("qos", PRIORITIES, ("tos *= 0xb9", "tos *= 0xb1"), program="qos.p4"),
    Exercise("firewall", "iperf h1 h2\niperf h1 h3\niperf h3 h1", (check_firewall,), POD,
             "firewall.p4"),
    Exercise("multicast", PINGALL, ("h1 -> h2 h3 X", "h2 -> h1 h3 X", "h3 -> h1 h2 X"),
             "sig-topo/topology.json", "multicast.p4", virtually="25% dropped"),
    Exercise("flowcache", FLOWS, ("icmp_seq=8 ttl=62",), program="flowcache.p4", virtual=None),
]  # fmt: skip


def main() -> int:
    parser = telemark_run.make_parser(__doc__, "p4lang/tutorials")
    parser.add_argument("--python", default="python3", help="interpreter of the controllers")
    options = parser.parse_args()
    chosen = [each for each in EXERCISES if options.only in (None, each.name)]
    if not (options.clone / "exercises").is_dir() or not chosen:
        parser.error(f"{options.clone}, {options.only}: clone or exercise not found")
    verdicts = []
    for exercise in chosen:
        verdict = _verdict(exercise, options)
        print(f"{exercise.name:20} {verdict}", flush=True)
        if verdict != NOTHING:
            verdicts.append(verdict)
    return telemark_run.print_summary(verdicts, options)


def _verdict(exercise: Exercise, options: argparse.Namespace) -> str:
    commands, expected = exercise.commands, exercise.expected
    if options.time == "virtual":
        if exercise.virtual is None:
            return NOTHING
        commands, expected = exercise.virtual, (exercise.virtually,)
    folder = options.clone / "exercises" / exercise.name.partition(",")[0]
    return telemark_run.run_and_check(
        folder / exercise.topology,
        commands.replace("{python}", options.python),
        expected,
        options,
        folder / "solution" / exercise.program if exercise.program else None,
    )


if __name__ == "__main__":
    sys.exit(main())
