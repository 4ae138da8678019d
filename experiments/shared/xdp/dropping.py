"""Candidates that drop UDP packets to ports 9 to 19 at different hooks."""

import re
from contextlib import ExitStack

from ebpf.loader import Program, ProgramObject, attach_tc, attach_xdp, load
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.sockets import RING, AfXdpReceiver
from experiments.shared.xdp.veth_setup import DEVICE, VethPair

PROGRAMS, SOCKETS = "ebpf/datapath/drop.bpf.c", "ebpf/datapath/sockets.bpf.c"
RULE = "-p udp --dport 9:19 -j DROP"
TRACKED = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"  # enables conntrack


def passing(stack: ExitStack) -> Program:
    """Attach and return a program that passes all packets (live frames need a program)."""
    program = stack.enter_context(load(PROGRAMS)).programs["pass_all"]
    stack.enter_context(attach_xdp(program, DEVICE))
    return program


def count_dropped(whole: ProgramObject) -> int:
    return int(whole.maps["dropped"].read().sum())


def _at_xdp(name: str) -> "Candidate":
    titles = {"drop_all": "XDP, all packets", "drop_ports": "XDP, by UDP port"}

    def set_up(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
        passing(stack)
        whole = stack.enter_context(load(PROGRAMS))
        return ReadyCandidate(whole.programs[name], lambda: count_dropped(whole))

    return Candidate(titles[name], set_up)


def _at_tc(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    whole = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_tc(whole.programs["drop_ports_at_tc"], DEVICE))
    return ReadyCandidate(passing(stack), lambda: count_dropped(whole))


def _at_socket(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    passing(stack)
    whole = stack.enter_context(load(SOCKETS))
    receiver = AfXdpReceiver(DEVICE)
    stack.callback(receiver.close)
    whole.maps["sockets"][0] = receiver.descriptor
    return ReadyCandidate(whole.programs["to_socket"], lambda: receiver.packets,
                    lambda _: receiver.take(), RING)  # fmt: skip


def _by_nft(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    veth.run(
        "nft add table netdev drops\n"
        "nft 'add chain netdev drops arriving "
        f"{{ type filter hook ingress device {DEVICE} priority 0; }}'\n"
        "nft add rule netdev drops arriving udp dport 9-19 counter drop"
    )

    def counted() -> int:
        return _number(r"counter packets (\d+)", veth.run("nft list table netdev drops"))

    return ReadyCandidate(passing(stack), counted)


def _by_iptables(name: str, table: str, chain: str, *rules: str) -> "Candidate":
    def set_up(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
        for rule in (*rules, RULE):
            veth.run(f"iptables-legacy -t {table} -A {chain} {rule}")

        def counted() -> int:
            shown = veth.run(f"iptables-legacy -t {table} -L {chain} -v -x -n")
            return _number(r"(\d+)\s+\d+\s+DROP", shown)

        return ReadyCandidate(passing(stack), counted)

    return Candidate(name, set_up)


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    assert match is not None, text
    return int(match[1])


ALL, PORTS = _at_xdp("drop_all"), _at_xdp("drop_ports")
# one core, because a queue has one socket
SOCKET = Candidate("AF_XDP, to a process", _at_socket, cores=1)
TC = Candidate("tc ingress", _at_tc)
NFT = Candidate("nftables ingress", _by_nft)
RAW = _by_iptables("iptables raw", "raw", "PREROUTING")
FILTER = _by_iptables("iptables filter", "filter", "INPUT")
CONNTRACK = _by_iptables("conntrack", "filter", "INPUT", TRACKED)
CANDIDATES = (ALL, PORTS, SOCKET, TC, NFT, RAW, FILTER, CONNTRACK)
