"""A script of simple_switch_CLI's commands as what a described switch is filled with."""

from dataclasses import dataclass
from pathlib import Path

import finsy as fy

from importers.switch_cli.session import Session
from telemark.network import Network


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
