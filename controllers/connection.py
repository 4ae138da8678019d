"""P4Runtime connections to the switches of a network."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path

import finsy as fy
from finsy.p4schema import P4SchemaCache
from finsy.proto import p4i
from google.protobuf import text_format  # type: ignore[import-untyped]
from mininet.topo import Topo

from controllers.bmv2 import Bmv2Connection
from telemark.errors import TestbedError
from telemark.network import Network

CPU_PORT = 255  # in p4src/include/allocation.p4

# finsy also requests gNMI, and warns that these switches do not support gNMI. The warning is
# hidden, because users cannot change this.
logging.getLogger("finsy").setLevel(logging.ERROR)


def connection(net: Network, name: str) -> fy.Switch:
    """Return a connection to one switch.

    `async with` connects to the switch and pushes its program.
    """
    switch = net.switch(name)
    options = fy.SwitchOptions(
        p4info=_p4info(switch.p4info_path), p4blob=switch.blob_path, device_id=switch.device_id
    )
    kind = fy.Switch if switch.thrift is None else partial(Bmv2Connection, thrift=switch.thrift)
    if P4SchemaCache.current() is not None:
        return kind(name, switch.grpc_address, options)
    with _schemas:
        return kind(name, switch.grpc_address, options)


@asynccontextmanager
async def connections(net: Network) -> AsyncIterator[dict[str, fy.Switch]]:
    """Connect to all switches of a network, and push their programs.

    The connections are a map from switch name to connection.
    """
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(connection(net, name))
            for name in net.topo.switches()
        }


_schemas = P4SchemaCache()


@cache
def _p4info(path: Path) -> p4i.P4Info:
    """Return the content of a P4Info file.

    The file is read only once for all switches with the same program, because it does not change in
    a run.
    """
    info = text_format.Parse(path.read_text(), p4i.P4Info())
    for table in info.tables:
        names: dict[str, str] = {}
        for field in table.match_fields:
            other = names.setdefault(field.name.rpartition(".")[2], field.name)
            if other != field.name:
                raise TestbedError(
                    f"table {table.preamble.name}: keys {other} and {field.name} have the same "
                    f"last "
                    'word, by which finsy finds keys; rename one: `x: exact @name("other_word")`'
                )
    return info


def cpu_ports(topo: Topo) -> dict[str, list[str]]:
    """Return the options that set the CPU port of every switch (p4src/include/allocation.p4)."""
    return {name: ["--cpu-port", str(CPU_PORT)] for name in topo.switches()}
