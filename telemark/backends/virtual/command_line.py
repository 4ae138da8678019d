"""The commands that a script may have in virtual time: pings, and waiting.

pingall                     each host asks each other one once
h1 ping -c 3 h2             -c is needed: there is nobody to stop it
h1 sleep 2                  two seconds of virtual time; also `sh sleep 2`
"""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from pathlib import Path

from telemark.backends.real.mininet_cli import script_lines
from telemark.backends.virtual.clock import VirtualClock
from telemark.backends.virtual.ping_host import PingHost
from telemark.errors import TestbedError

INTERVAL_S = 1.0  # between pings
MOST = 1_000_000  # pings, and seconds of sleep
ALL = ("pingall", "HOST ping -c COUNT HOST", "HOST sleep SECONDS")


class CommandLine:
    """What may be done at the hosts of a network: `hosts` by name."""

    def __init__(
        self, hosts: Mapping[str, PingHost], clock: VirtualClock, tell: Callable[[str], None]
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._tell = tell

    async def run_script(self, script: Path) -> None:
        """Do the commands of a script; none, where one of them cannot be. Raises TestbedError."""
        commands = [(line, self._parsed(line, script)) for line in script_lines(script)]
        for line, words in commands:
            self._tell(f"virtual> {line}")
            match words:
                case ["pingall"]:
                    await self._ping_all()
                case [name, "ping", count, to]:
                    await self._ping(self._hosts[name], int(count), to)
                case [_, "sleep", seconds]:
                    await self._sleep(float(seconds))

    def _parsed(self, line: str, script: Path) -> list[str]:
        """The words of a command, without options and with addresses."""
        words = line.split()
        match words:
            case ["pingall"]:
                return words
            case [name, "ping", *rest] if name in self._hosts:
                if found := self._parsed_ping(rest):
                    return [name, "ping", *found]
            case [name, "sleep", seconds] if name == "sh" or name in self._hosts:
                if seconds.replace(".", "", 1).isdecimal() and float(seconds) <= MOST:
                    return words
        raise TestbedError(
            f"{script}: {line}: in virtual time there are no programs at hosts: "
            f"expected {' or '.join(ALL)}, both up to {MOST:,}"
        )

    def _parsed_ping(self, words: list[str]) -> list[str] | None:
        """The count, and the address that is asked."""
        text = " ".join(words).replace("-c", "-c ").split()
        if "-c" not in text[:-1]:
            return None
        at = text.index("-c")
        count = text[at + 1]
        left = text[:at] + text[at + 2 :]
        if not count.isdecimal() or not 1 <= float(count) <= MOST or len(left) != 1:
            return None
        if left[0] in self._hosts:
            return [count, self._hosts[left[0]].address]
        try:
            return [count, str(IPv4Address(left[0]))]
        except ValueError:
            return None

    async def _ping(self, station: PingHost, count: int, address: str) -> None:
        """As iputils' ping has it, in all but the address's name."""
        if not station.has_route(address):
            self._tell("ping: connect: Network is unreachable")
            return
        received, identifier = 0, station.new_identifier()
        for number in range(1, count + 1):
            began_ns = self._clock.now_ns()
            answer = await station.ping(address, identifier, number)
            if answer is not None:
                received += 1
                self._tell(f"{address}: icmp_seq={number} ttl={answer.ttl} "
                           f"time={answer.round_trip_ns / 1e6:.3f} ms")  # fmt: skip
            if number < count:
                await self._clock.sleep_until(began_ns + round(INTERVAL_S * 1e9))
        lost = 100 * (count - received) / count
        self._tell(f"{count} packets transmitted, {received} received, {lost:g}% packet loss")

    async def _ping_all(self) -> None:
        """As Mininet has it."""
        asked = received = 0
        for name, station in self._hosts.items():
            reached = []
            for other, target in self._hosts.items():
                if target is station:
                    continue
                asked += 1
                answer = await station.ping(target.address, station.new_identifier(), 1)
                received += answer is not None
                reached.append("X" if answer is None else other)
            self._tell(f"{name} -> {' '.join(reached)}")
        lost = 100 * (asked - received) / asked if asked else 0
        self._tell(f"*** Results: {lost:.0f}% dropped ({received}/{asked} received)")

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + round(seconds * 1e9))
