"""Commands of scripts in virtual time: ping and sleep.

pingall                     one ping between each pair of hosts
h1 ping -c 3 h2             -c is required
h1 sleep 2                  two seconds of virtual time; also `sh sleep 2`
"""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from pathlib import Path

from telemark.backends.real.mininet_cli import script_lines
from telemark.backends.virtual.clock import VirtualClock
from telemark.backends.virtual.ping_host import PingHost
from telemark.errors import TestbedError

INTERVAL_S = 1.0  # time between two pings
MAX_COUNT = 1_000_000  # maximum number of pings and of seconds of sleep
COMMANDS = ("pingall", "HOST ping -c COUNT HOST", "HOST sleep SECONDS")


class CommandLine:
    """Interpreter of the commands; `hosts` is a map from name to host."""

    def __init__(
        self, hosts: Mapping[str, PingHost], clock: VirtualClock, print_line: Callable[[str], None]
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._print = print_line

    async def run_script(self, script: Path) -> None:
        """Run the commands of a script.

        Raises TestbedError if any command is invalid, before the first command runs.
        """
        commands = [(line, self._parse(line, script)) for line in script_lines(script)]
        for line, words in commands:
            self._print(f"virtual> {line}")
            match words:
                case ["pingall"]:
                    await self._ping_all()
                case [name, "ping", count, to]:
                    await self._ping(self._hosts[name], int(count), to)
                case [_, "sleep", seconds]:
                    await self._sleep(float(seconds))

    def _parse(self, line: str, script: Path) -> list[str]:
        """Return the words of a command without its options.

        Host names are replaced by addresses.
        """
        words = line.split()
        match words:
            case ["pingall"]:
                return words
            case [name, "ping", *rest] if name in self._hosts:
                if parsed := self._parse_ping(rest):
                    return [name, "ping", *parsed]
            case [name, "sleep", seconds] if name == "sh" or name in self._hosts:
                if seconds.replace(".", "", 1).isdecimal() and float(seconds) <= MAX_COUNT:
                    return words
        raise TestbedError(
            f"{script}: {line}: not available in virtual time; use "
            f"{' or '.join(COMMANDS)}, both up to {MAX_COUNT:,}"
        )

    def _parse_ping(self, words: list[str]) -> list[str] | None:
        """Return the count and the destination address; None if the arguments are invalid."""
        text = " ".join(words).replace("-c", "-c ").split()
        if "-c" not in text[:-1]:
            return None
        at = text.index("-c")
        count = text[at + 1]
        left = text[:at] + text[at + 2 :]
        if not count.isdecimal() or not 1 <= float(count) <= MAX_COUNT or len(left) != 1:
            return None
        if left[0] in self._hosts:
            return [count, self._hosts[left[0]].address]
        try:
            return [count, str(IPv4Address(left[0]))]
        except ValueError:
            return None

    async def _ping(self, host: PingHost, count: int, address: str) -> None:
        """Print the results like ping of iputils, but with addresses instead of names."""
        if not host.has_route(address):
            self._print("ping: connect: Network is unreachable")
            return
        received, identifier = 0, host.new_identifier()
        for number in range(1, count + 1):
            began_ns = self._clock.now_ns()
            answer = await host.ping(address, identifier, number)
            if answer is not None:
                received += 1
                self._print(f"{address}: icmp_seq={number} ttl={answer.ttl} "
                           f"time={answer.round_trip_ns / 1e6:.3f} ms")  # fmt: skip
            if number < count:
                await self._clock.sleep_until(began_ns + round(INTERVAL_S * 1e9))
        lost = 100 * (count - received) / count
        self._print(f"{count} packets transmitted, {received} received, {lost:g}% packet loss")

    async def _ping_all(self) -> None:
        """Ping between all pairs of hosts, and print the results like Mininet's pingall."""
        sent = received = 0
        for name, host in self._hosts.items():
            reached = []
            for other, target in self._hosts.items():
                if target is host:
                    continue
                sent += 1
                answer = await host.ping(target.address, host.new_identifier(), 1)
                received += answer is not None
                reached.append("X" if answer is None else other)
            self._print(f"{name} -> {' '.join(reached)}")
        lost = 100 * (sent - received) / sent if sent else 0
        self._print(f"*** Results: {lost:.0f}% dropped ({received}/{sent} received)")

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + round(seconds * 1e9))
