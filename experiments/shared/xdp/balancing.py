"""Load balancer candidates at XDP and in the network stack of the kernel."""

import shutil
import subprocess
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

from ebpf.datapath import load_balancer
from ebpf.datapath.load_balancer import LoadBalancer, Service
from ebpf.datapath.rules import UDP
from ebpf.loader import attach_xdp, load
from experiments.shared.xdp.dropping import PROGRAMS, count_dropped, passing
from experiments.shared.xdp.forwarding import set_up_stack
from experiments.shared.xdp.frames import DEVICE_MAC, PORT
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.veth_setup import OUT, PEER, VethPair

VIP = "198.18.0.1"
BACKENDS = 100
MACS = 12  # number of bytes that the balancer changes
MATCH = f"ip daddr {VIP} udp dport {PORT}"
CONNECTION = "jhash ip saddr . udp sport"


def _addresses() -> list[str]:
    return [f"198.18.1.{number}" for number in range(1, BACKENDS + 1)]


def _at_xdp(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    passing(stack)
    loaded = load(load_balancer.SOURCE, {"balancer_mac": [*DEVICE_MAC]})
    balancer = LoadBalancer(stack.enter_context(loaded))
    reals = {f"real{number}": _mac(number) for number in range(BACKENDS)}
    balancer.serve(Service(ip_address(VIP), PORT, UDP), reals)
    sink = stack.enter_context(load(PROGRAMS))
    stack.enter_context(attach_xdp(sink.programs["drop_all"], PEER))

    def counted() -> int:
        counts = balancer.counts()
        return min(count_dropped(sink), counts["by_table"] + counts["by_connection"])

    return ReadyCandidate(balancer.program, counted)


def _mac(number: int) -> bytes:
    return bytes.fromhex("0201000000") + bytes([number])


def _by_stack(veth: VethPair, stack: ExitStack, rules: str) -> ReadyCandidate:
    """Set up rules that rewrite addresses, and routes to the new addresses."""
    neighbours = "\n".join(
        f"ip neighbour add {address} lladdr {_mac(number).hex(':')} dev {OUT} nud permanent"
        for number, address in enumerate(_addresses())
    )
    veth.run(
        f"echo 1 > /proc/sys/net/ipv4/ip_forward; ip address add 198.18.1.254/24 dev {OUT}\n"
        f"{neighbours}\n{rules}"
    )
    return set_up_stack(stack)


def _by_nft(hook: str, rule: str) -> "Candidate":
    to = ", ".join(f"{number} : {address}" for number, address in enumerate(_addresses()))
    text = rule.replace("REAL", f"{CONNECTION} mod {BACKENDS} map {{ {to} }}")
    rules = f"nft 'add table ip lb; add chain ip lb pre {{ {hook}; }}; add rule ip lb pre {text}'"

    def set_up(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
        return _by_stack(veth, stack, rules)

    return Candidate("nft, NAT" if "dnat" in rule else "nft, no connections", set_up, 1)


def _by_iptables(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    rules = "\n".join(
        f"iptables-legacy -t nat -A PREROUTING -d {VIP} -p udp --dport {PORT} "
        f"-m statistic --mode nth --every {BACKENDS - number} --packet 0 "
        f"-j DNAT --to-destination {address}"
        for number, address in enumerate(_addresses())
    )
    return _by_stack(veth, stack, rules)


def _by_ipvs(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
    """Set up IPVS like the balancer at XDP: it hashes address and port, and changes only MACs."""
    reals = "\n".join(
        f"ipvsadm -a -u {VIP}:{PORT} -r {address} -g -w 200" for address in _addresses()
    )
    return _by_stack(
        veth,
        stack,
        f"""ip address add {VIP}/32 dev lo
        ipvsadm -A -u {VIP}:{PORT} -s sh -b sh-port
        {reals}""",
    )


def ipvs_missing() -> str | None:
    """Return the reason why IPVS is unavailable, or None if it is available."""
    if loader := shutil.which("modprobe"):
        subprocess.run([loader, "-q", "ip_vs"], check=False)
    if not Path("/proc/net/ip_vs").exists():
        return "the kernel does not support IPVS (CONFIG_IP_VS)"
    if shutil.which("ipvsadm") is None:
        return "ipvsadm is missing; install it with apt install ipvsadm"
    return None


XDP = Candidate("XDP, Maglev", _at_xdp, 1)
STATELESS = _by_nft(
    "type filter hook prerouting priority raw",
    f"{MATCH} notrack ip daddr set REAL",
)
NAT = _by_nft("type nat hook prerouting priority dstnat", f"{MATCH} dnat to REAL")
IPTABLES = Candidate("iptables, NAT", _by_iptables, 1)
IPVS = Candidate("IPVS", _by_ipvs, 1)
ANYWHERE = (XDP, STATELESS, NAT, IPTABLES)
