"""A console with which tests run simple_switch_CLI commands on a switch in virtual time."""

import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import finsy as fy
from mininet.topo import Topo
from scapy.utils import rdpcap
from virtual_networks import virtually

from controllers.connection import connection
from importers.switch_cli.commands import Answer, Line
from importers.switch_cli.session import Session
from telemark.network import Network

PROGRAM = Path(__file__).parent / "programs" / "commands.p4"
PORTS = (1, 2, 3)
TO_A, TO_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


class Star(Topo):
    def build(self) -> None:
        switch = self.addSwitch("s1")
        for number in PORTS:
            self.addLink(self.addHost(f"h{number}"), switch)


class Console:
    """Runs commands sequentially. Between commands, it can send frames."""

    def __init__(self, net: Network, switch: fy.Switch, clock: Any) -> None:
        self.net, self.switch, self.clock = net, switch, clock
        self.messages: list[str] = []
        self.session = Session(switch, net.switch("s1"), PORTS, self.messages.append)

    async def __call__(self, text: str) -> Answer:
        """Run commands; return the output of the last one."""
        answer: Answer = []
        for number, line in enumerate(text.strip().splitlines(), start=1):
            answer = await self.session.execute(Line(f"typed:{number}", tuple(line.split())))
        return answer

    async def send(self, to: str, *, number: int = 0, tag: int = 0, count: int = 1) -> None:
        """Send frames from h1 one by one; return when they have arrived."""
        addresses = bytes.fromhex(to.replace(":", "")) + bytes(6)
        frame = addresses + struct.pack("!HIHB", 0x1234, 0, number, tag)
        now_ns = self.clock.now_ns()
        times = [now_ns + 1000 * i for i in range(count)]
        self.net.send_frames("h1", times, [frame + bytes(43)] * count)
        await self.clock.sleep_until(now_ns + 10_000_000)

    async def entries(self, table: str) -> list[fy.P4TableEntry]:
        found: Any = self.switch.read(fy.P4TableEntry(table))
        return [entry async for entry in found]


Body = Callable[[Console], Awaitable[Any]]


def on_a_switch(folder: Path, body: Body) -> list[list[int]]:
    """Run `body` with a console; return for each port the tags of the frames that left by it."""

    async def main(run: Any) -> list[Path]:
        with Network(Star(), run, program=str(PROGRAM)) as net:
            async with connection(net, "s1") as switch:
                await body(Console(net, switch, run.clock))
        return [net.capture("s1", f"h{port}", "out") for port in PORTS]

    captures = virtually(folder, main)
    return [[bytes(packet)[20] for packet in rdpcap(str(path))] for path in captures]
