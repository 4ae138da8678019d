"""P4Runtime connections to the switches of a network."""

import logging

import finsy as fy
from mininet.topo import Topo

from testbed.network import Network

# finsy asks each switch for gNMI too, and warns that ours has none: nothing that a user could mend.
logging.getLogger("finsy").setLevel(logging.ERROR)


def connection(net: Network, name: str) -> fy.Switch:
    """A connection to one switch, to be entered with `async with`; pushes the network's program."""
    switch = net.switch(name)
    return fy.Switch(
        name,
        switch.grpc_address,
        fy.SwitchOptions(
            p4info=switch.p4info_path, p4blob=switch.blob_path, device_id=switch.device_id
        ),
    )


def cpu_ports(topo: Topo) -> dict[str, list[str]]:
    """Options that give every switch its CPU port (p4src/include/allocation.p4), for readouts."""
    return {name: ["--cpu-port", "255"] for name in topo.switches()}
