"""Calls to bmv2 switches by the Thrift bindings that bmv2 installs, for a process without them.

A line of stdin is `{"port": 9091, "method": "register_read", "arguments": {"name": "r"}}`: a Thrift
port, a function of CALLS, and its arguments. The line of stdout that answers it is
`{"result": ...}` or `{"error": "..."}`. The process ends with its stdin.
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

CONTEXT = 0  # simple_switch has one


class Switch:
    """A connection to one switch."""

    def __init__(self, port: int) -> None:
        self.transport = TBufferedTransport(TSocket("127.0.0.1", port))
        protocol = TBinaryProtocol(self.transport)
        self.standard = Standard.Client(TMultiplexedProtocol(protocol, "standard"))
        self.simple_switch = SimpleSwitch.Client(TMultiplexedProtocol(protocol, "simple_switch"))


def set_queue_depth(switch: Switch, depth: int, port: int | None = None) -> None:
    """Set how many packets a port's queue holds; None: all ports."""
    if port is None:
        switch.simple_switch.set_all_egress_queue_depths(depth_pkts=depth)
    else:
        switch.simple_switch.set_egress_queue_depth(port_num=port, depth_pkts=depth)


def set_queue_rate(switch: Switch, rate_pps: int, port: int) -> None:
    """Set how many packets per second leave a port's queue; 0: no limit."""
    switch.simple_switch.set_egress_queue_rate(port_num=port, rate_pps=rate_pps)


def register_read(switch: Switch, name: str, index: int | None = None) -> Any:
    """Read one cell of a register, or all of them."""
    if index is None:
        return switch.standard.bm_register_read_all(cxt_id=CONTEXT, register_array_name=name)
    return switch.standard.bm_register_read(
        cxt_id=CONTEXT, register_array_name=name, idx=index
    )  # fmt: skip


def register_write(switch: Switch, name: str, first: int, end: int, value: int) -> None:
    """Write one value into the cells from `first` to the one before `end`."""
    switch.standard.bm_register_write_range(
        cxt_id=CONTEXT, register_array_name=name, start_index=first, end_index=end, value=value
    )


CALLS: dict[str, Callable[..., Any]] = {
    call.__name__: call for call in (set_queue_depth, set_queue_rate, register_read, register_write)
}


def answer(port: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do one call, over a connection of its own."""
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
    """Answer line by line."""
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
