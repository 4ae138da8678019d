"""Helpers of the tests of --watch: a browser's requests, and a small network."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from loaded import Started
from mininet.topo import Topo


def events(url: str) -> Iterator[tuple[str, Any]]:
    """Return the kinds and data of the events of a page, until the run ends."""
    with urllib.request.urlopen(url + "events", timeout=60) as response:
        kind = ""
        for line in response:
            word, _, value = line.decode().strip().partition(": ")
            if word == "event":
                kind = value
            elif word == "data":
                yield kind, json.loads(value)


def set_speed(url: str, speed: str) -> int:
    """Send a speed; return the status of the response."""
    request = urllib.request.Request(url + "speed", data=speed.encode(), method="POST")
    return status_of(request)


def status_of(request: urllib.request.Request | str) -> int:
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def address_of(process: Started) -> str:
    """Return the address that a run prints."""
    for line in process.stdout:
        if line.startswith("Watch: "):
            return line.split()[1]
    raise AssertionError(process.stderr.read())


class Lossy(Topo):
    """h1 - s1 - s2, with different parameters per direction."""

    def build(self) -> None:
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1, rate_bps=1000)
        self.addLink(s1, s2, params1={"rate_bps": 2000}, params2={"bw": 3})


def port(**changes: int) -> dict[str, Any]:
    link = dict.fromkeys(["sent_packets", "sent_bytes", "delivered_packets", "delivered_bytes",
                          "lost_packets"], 0)  # fmt: skip
    names = ("received_bytes", "transmitted_bytes", "enqueued_now", "queue_drops")
    own = {name: changes.pop(name) for name in names if name in changes}
    return {**dict.fromkeys(names, 0), **own, "link": {**link, **changes}}
