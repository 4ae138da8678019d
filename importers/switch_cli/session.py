"""Executes simple_switch_CLI commands on one connected switch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import finsy as fy
from finsy.p4client import P4ClientError

from importers.switch_cli.commands import (
    Answer,
    CommandError,
    Line,
    arguments,
    commands_of,
    read_script,
)
from importers.switch_cli.profiles import Profiles
from importers.switch_cli.replication import Replication
from importers.switch_cli.state import Queues, State
from importers.switch_cli.tables import Tables
from minip4.errors import Minip4Error
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.error_reporting import refusal

# Map from each unsupported command to the reason why it is not supported.
UNSUPPORTED = {
    "set_crc16_parameters": "only Thrift can set hash functions",
    "set_crc32_parameters": "only Thrift can set hash functions",
    "set_toeplitz_hash_key": "only Thrift can set hash functions",
    "table_indirect_set_default": "P4Runtime's default entries have no members",
    "table_indirect_set_default_with_group": "P4Runtime's default entries have no groups",
    "mc_set_lag_membership": "P4Runtime has no link aggregation groups",
    "load_new_config_file": "the network description defines the P4 program",
    "swap_configs": "the network description defines the P4 program",
    "port_add": "the network description defines the ports",
    "port_remove": "the network description defines the ports",
}


class Session:
    """Session with one switch. It uses the handles of simple_switch.

    `node` is the switch in the network, and `ports` are its ports. `report` is called with messages
    for the user: results of read commands, and values that differ from the requested values.
    """

    def __init__(
        self, switch: fy.Switch, node: Any, ports: Sequence[int], report: Callable[[str], None]
    ) -> None:
        self._report = report
        self._where = ""
        tables = Tables(switch)
        families = (tables, Profiles(switch, tables), Replication(switch), Queues(node, ports),
                    State(switch, tables, self._note))  # fmt: skip
        self._handlers = {name: h for each in families for name, h in commands_of(each).items()}

    async def run(self, path: Path) -> int:
        """Run a script. Report each command that fails in one line. Return how many failed.

        As in simple_switch_CLI, a failed command does not end the script. Raises CommandError if
        the script cannot be read.
        """
        failures = 0
        for line in read_script(path):
            try:
                answer = await self.execute(line)
            except TestbedError as error:
                failures += 1
                self._report(str(error))
                continue
            if self._handlers[line.words[0]].__dict__["command_reads"]:
                for text in answer:
                    self._report(text)
        return failures

    async def execute(self, line: Line) -> Answer:
        """Execute one command, and return its result.

        Raises CommandError, which contains the location of the command.
        """
        self._where = line.where
        name, *words = line.words
        try:
            handler = self._handlers.get(name)
            if handler is None:
                raise CommandError(UNSUPPORTED.get(name) or f"expected one of {self._known()}")
            return await handler(*arguments(name, handler, words))
        except P4ClientError as error:
            why = refusal(error)
            raise CommandError(f"{line.where}: {name}: rejected by the switch: {why}") from error
        except (TestbedError, Minip4Error) as error:
            raise CommandError(f"{line.where}: {name}: {error}") from error
        except ValueError as error:  # finsy: a number has too many bits for its field
            raise CommandError(f"{line.where}: {name}: {' '.join(str(error).split())}") from error

    def _known(self) -> str:
        return ", ".join(sorted(self._handlers))

    def _note(self, text: str) -> None:
        self._report(f"{self._where}: {text}")


@dataclass(frozen=True)
class CommandScript:
    """See importers.network.TablePopulation."""

    path: Path

    async def write(self, switch: fy.Switch, net: Network) -> list[str]:
        """Run the script.

        Return the results of read commands, and the messages of failed commands.
        """
        lines: list[str] = []
        ports = [net.port(switch.name, neighbour) for neighbour in net.neighbours(switch.name)]
        await Session(switch, net.switch(switch.name), ports, lines.append).run(self.path)
        return lines


@dataclass(frozen=True)
class ProgramAlone:
    """Initial state of a switch whose tables are empty."""

    async def write(self, _switch: fy.Switch, _net: Network) -> list[str]:
        """Do nothing, because the program was already pushed when the switch was connected."""
        return []
