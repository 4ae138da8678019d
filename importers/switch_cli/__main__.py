"""Carries a script of simple_switch_CLI's commands out on a `minip4 switch` that runs.

Usage: python -m importers.switch_cli NAME HOST:PORT DEVICE_ID CONTROL SCRIPT
where P4Runtime answers at HOST:PORT, and `minip4 control` at the socket CONTROL. What reading
commands answer is printed, and a line for each that failed: then the exit status is 1. It is 2,
with a line on stderr, where none could be carried out.
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy

from importers.switch_cli.session import Session
from minip4.errors import Minip4Error
from minip4.runtime.switch.control import call
from telemark.errors import TestbedError

FAILED, UNUSABLE = 1, 2


class Node:
    """A running switch, as far as Session asks: see telemark.backends.real.targets.minip4."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def ports(self) -> list[int]:
        """Those with an interface."""
        return [int(port) for port in call(self._control, "counters")["ports"]]

    def set_queue(self, port: int, **changes: int) -> None:
        """See `minip4 control`."""
        call(self._control, "set_queue", port=port, **changes)


async def carry_out(name: str, address: str, device_id: int, control: Path, script: Path) -> int:
    """Returns how many commands failed. Raises TestbedError, Minip4Error and finsy's errors."""
    node = Node(control)
    async with fy.Switch(name, address, fy.SwitchOptions(device_id=device_id)) as switch:
        session = Session(switch, node, node.ports(), lambda line: print(line, flush=True))
        return await session.run(script)


def main(arguments: list[str]) -> int:
    """Exit status."""
    name, address, device_id, control, script = arguments
    try:
        failed = asyncio.run(carry_out(name, address, int(device_id), Path(control), Path(script)))
    except (TestbedError, Minip4Error) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return UNUSABLE
    return FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
