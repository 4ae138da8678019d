"""Goodput of one TCP stream between two namespaces, through a chain of switches."""

import subprocess
from pathlib import Path

from benchmarks.speed.shared.switch_chain import (
    GENERATOR_CORE,
    SWITCH_CORE,
    Chain,
    await_true,
    tool,
)
from telemark.errors import TestbedError
from telemark.processes import run_command

HOSTS = (("g", "192.168.1.1", "02:00:00:00:00:01"), ("t", "10.0.0.2", "02:00:00:00:00:02"))


def gbps(chain: Chain, seconds: float) -> float:
    """Return the goodput of one stream in Gbit/s with an MTU of 1500 and without offloads.

    The sender and the protocol stacks of both hosts run on the core of the generator. The receiver
    runs on the core of the switch.
    """
    processes = chain.processes
    pids = []
    for (interface, address, mac), (_, peer, peer_mac) in zip(HOSTS, HOSTS[::-1], strict=True):
        holder = processes.start(["unshare", "--net", "sleep", "600"])
        await_true(lambda pid=holder.pid: _is_isolated(pid), "a namespace")  # type: ignore[misc]
        pids.append(holder.pid)
        run_command(f"ip link set dev {interface} netns {holder.pid}")
        inside = f"nsenter --net=/proc/{holder.pid}/ns/net "
        run_command(f"{inside}ip link set dev {interface} address {mac} up")
        run_command(f"{inside}ip addr add {address}/32 dev {interface}")
        run_command(f"{inside}ip route add {peer}/32 dev {interface}")
        run_command(f"{inside}ip neigh add {peer} lladdr {peer_mac} dev {interface}")
        _receive_on(GENERATOR_CORE, holder.pid, interface)
    client, server = (
        ["taskset", "--cpu-list", str(core), "nsenter", f"--net=/proc/{pid}/ns/net", tool("tcp")]
        for pid, core in zip(pids, (GENERATOR_CORE, SWITCH_CORE), strict=True)
    )
    receiver = processes.start_ready(server)
    processes.finish(processes.start([*client, HOSTS[1][1], str(seconds)]))
    received_bytes, took_ns = processes.finish(receiver)
    return received_bytes * 8 / took_ns


def _is_isolated(pid: int) -> bool:
    return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def _receive_on(core: int, pid: int, interface: str) -> None:
    """Let `core` process received packets (RPS), instead of the core of the switch."""
    file = f"/sys/class/net/{interface}/queues/rx-0/rps_cpus"
    # mount the sysfs of this namespace
    script = f"mount -t sysfs sysfs /sys && echo {1 << core:x} > {file}"
    done = subprocess.run(
        ["nsenter", f"--net=/proc/{pid}/ns/net", "unshare", "--mount", "sh", "-c", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise TestbedError(f"{file}: {done.stderr.strip()}")
