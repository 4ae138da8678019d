"""Contenders that send packets on, and where they end: at the far end of a veth, counted.

What XDP sends is taken by XDP there, and what the kernel's stack sends by tc: each in the way that
costs least, as a veth would copy packets of the stack before XDP saw them.
"""

import socket
from contextlib import ExitStack

from ebpf.loader import attach_tc, attach_xdp, load
from experiments.shared.xdp.dropping import PROGRAMS, dropped, passing
from experiments.shared.xdp.frames import DEVICE_MAC
from experiments.shared.xdp.ground import DEVICE, OUT, PEER, SINK, Ground
from experiments.shared.xdp.turns import Contender, Standing

FORWARD = "ebpf/datapath/forward.bpf.c"
DESTINATION = "198.18.0.1"  # behind the second device (RFC 2544's range)
NEXT_HOP_MAC, BRIDGE_MAC = "02:00:00:00:00:03", "02:00:00:00:00:04"
RESTORED = 14  # bytes that programs change: addresses


def _back(ground: Ground, stack: ExitStack) -> Standing:
    passing(stack)
    whole = stack.enter_context(load(FORWARD))
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_xdp(sink.programs["drop_all"], PEER))
    return Standing(whole.programs["send_back"], lambda: dropped(sink))


def _on(ground: Ground, stack: ExitStack) -> Standing:
    passing(stack)
    whole = stack.enter_context(load(FORWARD))
    whole.maps["devices"][0] = socket.if_nametoindex(OUT)
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_xdp(sink.programs["drop_all"], SINK))
    return Standing(whole.programs["send_on"], lambda: dropped(sink))


def by_stack(stack: ExitStack) -> Standing:
    """All that the stack sends out of the second device is dropped at tc, behind it."""
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_tc(sink.programs["drop_ports_at_tc"], SINK))
    return Standing(passing(stack), lambda: dropped(sink))


def _at_tc(ground: Ground, stack: ExitStack) -> Standing:
    whole = stack.enter_context(load(FORWARD, {"out": socket.if_nametoindex(OUT)}))
    stack.enter_context(attach_tc(whole.programs["send_on_at_tc"], DEVICE))
    return by_stack(stack)


def _by_bridge(ground: Ground, stack: ExitStack) -> Standing:
    """The frames' address is no longer the device's own, but behind the second one."""
    ground.run(
        f"""ip link add bridge type bridge; ip link set {DEVICE} address {BRIDGE_MAC}
        for each in /proc/sys/net/bridge/bridge-nf-call-*tables; do
            [ ! -e $each ] || echo 0 > $each # or iptables would look at what is bridged
        done
        ip link set {DEVICE} master bridge; ip link set {OUT} master bridge
        bridge fdb add {DEVICE_MAC.hex(":")} dev {OUT} master static; ip link set bridge up"""
    )
    return by_stack(stack)


def _by_routing(ground: Ground, stack: ExitStack) -> Standing:
    ground.run(
        f"""echo 1 > /proc/sys/net/ipv4/ip_forward; ip address add 198.18.0.254/24 dev {OUT}
        ip neighbour add {DESTINATION} lladdr {NEXT_HOP_MAC} dev {OUT}"""
    )
    return by_stack(stack)


TX = Contender("XDP_TX", _back)
REDIRECT = Contender("XDP_REDIRECT", _on)
TC = Contender("tc, redirect", _at_tc)
BRIDGE = Contender("Linux bridge", _by_bridge)
ROUTING = Contender("Linux routing", _by_routing)
BY_KERNEL = (TX, REDIRECT, TC, BRIDGE, ROUTING)
