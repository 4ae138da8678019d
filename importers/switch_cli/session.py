"""simple_switch_CLI commands, carried out on one connected switch."""

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

# What P4Runtime has no words for, and why nothing else helps.
NOT_THERE = {
    "set_crc16_parameters": "hash functions are set over Thrift alone",
    "set_crc32_parameters": "hash functions are set over Thrift alone",
    "set_toeplitz_hash_key": "hash functions are set over Thrift alone",
    "table_indirect_set_default": "P4Runtime's default entries have no members",
    "table_indirect_set_default_with_group": "P4Runtime's default entries have no groups",
    "mc_set_lag_membership": "P4Runtime has no link aggregation groups",
    "load_new_config_file": "the network's description says what a switch runs",
    "swap_configs": "the network's description says what a switch runs",
    "port_add": "the network's description says which ports there are",
    "port_remove": "the network's description says which ports there are",
}


class Session:
    """Commands to one switch; handles are those that simple_switch would give.

    `node` is the switch as the network knows it, with these `ports`; `tell` is told, a line at a
    time, what reading commands answer and what could not be done as it was asked.
    """

    def __init__(
        self, switch: fy.Switch, node: Any, ports: Sequence[int], tell: Callable[[str], None]
    ) -> None:
        self._tell = tell
        self._where = ""
        tables = Tables(switch)
        families = (tables, Profiles(switch, tables), Replication(switch), Queues(node, ports),
                    State(switch, tables, self._note))  # fmt: skip
        self._handlers = {name: h for each in families for name, h in commands_of(each).items()}

    async def run(self, path: Path) -> int:
        """Carry out a script; return how many of its commands failed, each told in one line.

        As simple_switch_CLI it goes on behind them. Raises CommandError for what is no script.
        """
        failures = 0
        for line in read_script(path):
            try:
                answer = await self.execute(line)
            except TestbedError as error:
                failures += 1
                self._tell(str(error))
                continue
            if self._handlers[line.words[0]].__dict__["command_reads"]:
                for text in answer:
                    self._tell(text)
        return failures

    async def execute(self, line: Line) -> Answer:
        """Carry out one command; return what it answers. Raises CommandError, with the place."""
        self._where = line.where
        name, *words = line.words
        try:
            handler = self._handlers.get(name)
            if handler is None:
                raise CommandError(NOT_THERE.get(name) or f"expected one of {self._known()}")
            return await handler(*arguments(name, handler, words))
        except P4ClientError as error:
            why = refusal(error)
            raise CommandError(f"{line.where}: {name}: the switch refuses: {why}") from error
        except (TestbedError, Minip4Error) as error:
            raise CommandError(f"{line.where}: {name}: {error}") from error
        except ValueError as error:  # a number that P4Runtime has no room for
            raise CommandError(f"{line.where}: {name}: {' '.join(str(error).split())}") from error

    def _known(self) -> str:
        return ", ".join(sorted(self._handlers))

    def _note(self, text: str) -> None:
        self._tell(f"{self._where}: {text}")


@dataclass(frozen=True)
class CommandScript:
    """See importers.network.Filling."""

    path: Path

    async def write(self, switch: fy.Switch, net: Network) -> list[str]:
        """Carry the script out; return what its reading commands answered, and what failed."""
        told: list[str] = []
        ports = [net.port(switch.name, neighbour) for neighbour in net.neighbours(switch.name)]
        await Session(switch, net.switch(switch.name), ports, told.append).run(self.path)
        return told


@dataclass(frozen=True)
class ProgramAlone:
    """A switch that runs its program with empty tables, as its program has them."""

    async def write(self, _switch: fy.Switch, _net: Network) -> list[str]:
        """Nothing: whoever connected has pushed the program."""
        return []
