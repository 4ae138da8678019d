"""Program that calls bmv2's Thrift bindings for a process that cannot import them.

Each line of stdin is a call of a function in CALLS, with a Thrift port: `{"port": 9091, "method":
"register_read", "arguments": {"name": "r"}}`. Each line of stdout is the response to a call:
`{"result": ...}` or `{"error": "..."}`. The program ends at EOF of stdin.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from bm_runtime.standard import Standard
from bm_runtime.standard.ttypes import InvalidRegisterOperation, RegisterOperationErrorCode
from sswitch_runtime import SimpleSwitch
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

CONTEXT = 0  # simple_switch has only this context


class Switch:
    """A connection to one switch."""

    def __init__(self, port: int) -> None:
        self.transport = TBufferedTransport(TSocket("127.0.0.1", port))
        protocol = TBinaryProtocol(self.transport)
        self.standard = Standard.Client(TMultiplexedProtocol(protocol, "standard"))
        self.simple_switch = SimpleSwitch.Client(TMultiplexedProtocol(protocol, "simple_switch"))


def set_queue_depth(switch: Switch, depth: int, port: int | None = None) -> None:
    """Set the depth of a port's queue, in packets; port None means all ports."""
    if port is None:
        switch.simple_switch.set_all_egress_queue_depths(depth_pkts=depth)
    else:
        switch.simple_switch.set_egress_queue_depth(port_num=port, depth_pkts=depth)


def set_queue_rate(switch: Switch, rate_pps: int, port: int) -> None:
    """Set the rate of a port's queue, in packets/s; 0 means unlimited."""
    switch.simple_switch.set_egress_queue_rate(port_num=port, rate_pps=rate_pps)


def register_read(switch: Switch, name: str, index: int | None = None) -> Any:
    """Read one cell of a register, or all cells."""
    if index is None:
        return switch.standard.bm_register_read_all(cxt_id=CONTEXT, register_array_name=name)
    return switch.standard.bm_register_read(
        cxt_id=CONTEXT, register_array_name=name, idx=index
    )  # fmt: skip


def register_write(switch: Switch, name: str, first: int, end: int, value: int) -> None:
    """Write one value into the cells from `first` up to but not including `end`."""
    switch.standard.bm_register_write_range(
        cxt_id=CONTEXT, register_array_name=name, start_index=first, end_index=end, value=value
    )


CALLS: dict[str, Callable[..., Any]] = {
    call.__name__: call for call in (set_queue_depth, set_queue_rate, register_read, register_write)
}


def answer(port: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Execute one call, over a new connection."""
    switch = Switch(port)
    try:
        switch.transport.open()
        return {"result": CALLS[method](switch, **arguments)}
    except InvalidRegisterOperation as error:
        return {"error": RegisterOperationErrorCode._VALUES_TO_NAMES.get(error.code, str(error))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    finally:
        switch.transport.close()


def main() -> None:
    """Execute the calls, one per line of stdin."""
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
