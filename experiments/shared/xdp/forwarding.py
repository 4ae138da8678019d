"""Candidates that forward packets to the far end of a veth pair, which counts the packets.

Packets that XDP sent are counted at XDP. Packets that the network stack sent are counted at tc,
because a veth device copies them before XDP. So packets are counted where it costs least.
"""

import socket
from contextlib import ExitStack

from ebpf.loader import attach_tc, attach_xdp, load
from experiments.shared.xdp.dropping import PROGRAMS, count_dropped, passing
from experiments.shared.xdp.frames import DEVICE_MAC
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.veth_setup import DEVICE, OUT, PEER, SINK, VethPair

FORWARD = "ebpf/datapath/forward.bpf.c"
DESTINATION = "198.18.0.1"  # address reached via the second device (RFC 2544 range)
NEXT_HOP_MAC, BRIDGE_MAC = "02:00:00:00:00:03", "02:00:00:00:00:04"
RESTORED = 14  # number of bytes that programs may change: the Ethernet header


def _back(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    passing(stack)
    whole = stack.enter_context(load(FORWARD))
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_xdp(sink.programs["drop_all"], PEER))
    return ReadyCandidate(whole.programs["send_back"], lambda: count_dropped(sink))


def _on(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    passing(stack)
    whole = stack.enter_context(load(FORWARD))
    whole.maps["devices"][0] = socket.if_nametoindex(OUT)
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_xdp(sink.programs["drop_all"], SINK))
    return ReadyCandidate(whole.programs["send_on"], lambda: count_dropped(sink))


def set_up_stack(stack: ExitStack) -> ReadyCandidate:
    """Count and drop packets of the network stack at tc, after the second device."""
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_tc(sink.programs["drop_ports_at_tc"], SINK))
    return ReadyCandidate(passing(stack), lambda: count_dropped(sink))


def _at_tc(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    whole = stack.enter_context(load(FORWARD, {"out": socket.if_nametoindex(OUT)}))
    stack.enter_context(attach_tc(whole.programs["send_on_at_tc"], DEVICE))
    return set_up_stack(stack)


def _by_bridge(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    """Set up a bridge; it reaches the destination address of the frames via the second device."""
    veth.run(
        f"""ip link add bridge type bridge; ip link set {DEVICE} address {BRIDGE_MAC}
        for each in /proc/sys/net/bridge/bridge-nf-call-*tables; do
            [ ! -e $each ] || echo 0 > $each # otherwise iptables would process bridged frames
        done
        ip link set {DEVICE} master bridge; ip link set {OUT} master bridge
        bridge fdb add {DEVICE_MAC.hex(":")} dev {OUT} master static; ip link set bridge up"""
    )
    return set_up_stack(stack)


def _by_routing(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    veth.run(
        f"""echo 1 > /proc/sys/net/ipv4/ip_forward; ip address add 198.18.0.254/24 dev {OUT}
        ip neighbour add {DESTINATION} lladdr {NEXT_HOP_MAC} dev {OUT}"""
    )
    return set_up_stack(stack)


TX = Candidate("XDP_TX", _back)
REDIRECT = Candidate("XDP_REDIRECT", _on)
TC = Candidate("tc, redirect", _at_tc)
BRIDGE = Candidate("Linux bridge", _by_bridge)
ROUTING = Candidate("Linux routing", _by_routing)
BY_KERNEL = (TX, REDIRECT, TC, BRIDGE, ROUTING)
