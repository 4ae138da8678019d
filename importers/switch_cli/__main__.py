"""Execute a script of simple_switch_CLI commands on a running `minip4 switch`.

Usage: python -m importers.switch_cli NAME HOST:PORT DEVICE_ID CONTROL SCRIPT. HOST:PORT is the
P4Runtime address, and CONTROL is the socket of `minip4 control`. Prints the results of read
commands, and one line for each command that failed. The exit status is 1 if a command failed, or 2,
with a message on stderr, if the script could not be run.
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
    """A running switch. It has the methods of Minip4Switch that Session uses."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def ports(self) -> list[int]:
        """Return the numbers of those ports that have an interface."""
        return [int(port) for port in call(self._control, "counters")["ports"]]

    def set_queue(self, port: int, **changes: int) -> None:
        """Set the rate or the depth of a queue; see `minip4 control`."""
        call(self._control, "set_queue", port=port, **changes)


async def carry_out(name: str, address: str, device_id: int, control: Path, script: Path) -> int:
    """Run the script. Return how many commands failed.

    Raises TestbedError, Minip4Error and finsy's errors.
    """
    node = Node(control)
    async with fy.Switch(name, address, fy.SwitchOptions(device_id=device_id)) as switch:
        session = Session(switch, node, node.ports(), lambda line: print(line, flush=True))
        return await session.run(script)


def main(arguments: list[str]) -> int:
    """Run the command. Return the exit status."""
    name, address, device_id, control, script = arguments
    try:
        failed = asyncio.run(carry_out(name, address, int(device_id), Path(control), Path(script)))
    except (TestbedError, Minip4Error) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return UNUSABLE
    return FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
