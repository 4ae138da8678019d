"""The control socket of a switch in this process: requests, responses, and their effects.

Effects are changes of links and queues.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import compiled

from minip4.engine.engine import Engine
from minip4.engine.shared import QueueState
from minip4.errors import Minip4Error
from minip4.runtime.client.control import described
from minip4.runtime.switch.cli import add_arguments
from minip4.runtime.switch.control import ControlServer, call
from minip4.runtime.switch.options import QueueOptions, SwitchOptions
from minip4.runtime.switch.port_options import link, port_number
from minip4.runtime.switch.port_settings import PortSettings


class Target:
    """A switch with ports 1 and 2, which has only the parts that the control socket needs."""

    def __init__(self, *options: str) -> None:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        given = vars(parser.parse_args(["x.json", *options]))
        fields = SwitchOptions.__dataclass_fields__
        settings = SwitchOptions(**{k: v for k, v in given.items() if k in fields})
        self.dataplane = Engine(compiled().bmv2_json)
        self.settings = PortSettings(settings, [1, 2])
        self.settings.apply(self.dataplane)
        self.woken = 0
        self.server = ControlServer(self, self.settings)

    def wake(self) -> None:
        self.woken += 1

    def counters(self) -> dict[str, Any]:
        return {"made": "up"}

    def ask(self, **request: Any) -> dict[str, Any]:
        return self.server.answer(json.dumps(request).encode())

    def queue(self, port: int, priority: int) -> tuple[int, int, int, int]:
        state = QueueState()
        library = self.dataplane.library
        library.engine_queue_state(self.dataplane.handle, port, priority, state)
        c = state.config
        return c.depth_packets, c.depth_bytes, c.rate_pps, c.rate_bps


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target("--priority-queues", "2", "--link", "2:delay_us=10,queue_packets=7",
                    "--queue", "2:priority=1,rate_pps=50")  # fmt: skip
    yield target
    target.dataplane.close()


def test_options_are_applied_in_turn(target: Target) -> None:
    assert target.queue(2, 0) == (7, 0, 0, 0)
    assert target.queue(2, 1) == (7, 0, 50, 0)
    assert target.queue(1, 0) == (64, 0, 0, 0)


def test_settings_that_are_not_given_are_unchanged(target: Target) -> None:
    assert target.ask(call="set_queue", port=2, depth=9, bytes=1500) == {"result": None}
    assert target.queue(2, 0) == (9, 1500, 0, 0)
    assert target.queue(2, 1) == (9, 1500, 50, 0)
    target.ask(call="set_queue", port=2, priority=1, rate_bps=8)
    assert target.queue(2, 1) == (9, 1500, 50, 8)
    assert target.ask(call="set_link", port=2, jitter_us=10) == {"result": None}, "delay is 10"
    assert target.woken == 3


def test_a_new_engine_gets_the_changed_settings(target: Target) -> None:
    target.settings.set_queue(target.dataplane, QueueOptions(1, rate_bps=10**6))
    target.dataplane.close()
    target.dataplane = Engine(compiled().bmv2_json)
    target.settings.apply(target.dataplane)
    assert target.queue(1, 1) == (64, 0, 0, 10**6)


REFUSED = {
    "no JSON": (b"{", "expected a JSON object"),
    "a list": (b"[]", "expected a JSON object"),
    "nesting": (b"[" * 100_000, "expected a JSON object"),
    "no call": (b"{}", "one of set_link, set_queue, counters"),
    "another call": (b'{"call": "fly"}', "one of set_link, set_queue, counters"),
    "a call that is a list": (b'{"call": []}', "expected a JSON object"),
    "no port": (b'{"call": "set_link", "loss_probability": 1}', "port: missing"),
    "no such port": (b'{"call": "set_link", "port": 3}', "has no port 3 (its ports: 1, 2)"),
    "a key": (b'{"call": "set_link", "port": 1, "lost": 1}', "lost: expected one of port"),
    "a text": (b'{"call": "set_link", "port": 1, "delay_us": "1"}', "delay_us: expected a number"),
    "true": (b'{"call": "set_queue", "port": 1, "depth": true}', "depth: expected a whole"),
    "a fraction": (b'{"call": "set_queue", "port": 1, "depth": 1.5}', "depth: expected a whole"),
    "too much": (b'{"call": "set_link", "port": 1, "loss_probability": 2}', "expected 0 to 1"),
    "NaN": (b'{"call": "set_link", "port": 1, "loss_probability": NaN}', "nan: expected 0 to 1"),
    "jitter": (b'{"call": "set_link", "port": 2, "jitter_us": 11}', "jitter_us 11 is above"),
    "priority": (b'{"call": "set_queue", "port": 2, "priority": 2}', "the switch has 2 priority"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_requests_are_refused(target: Target, line: bytes, message: str) -> None:
    answer = target.server.answer(line)
    assert message in answer["error"]
    assert target.woken == 0


def test_over_the_socket(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"

    async def scene() -> None:
        await target.server.start(path)
        with pytest.raises(Minip4Error, match="another switch uses this socket"):
            await ControlServer(target, target.settings).start(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert await asyncio.to_thread(call, path, "counters") == {"made": "up"}
        with pytest.raises(Minip4Error, match="the switch has no port 9"):
            await asyncio.to_thread(call, path, "set_link", port=9)
        target.server.stop()

    asyncio.run(scene())
    with pytest.raises(Minip4Error, match="no response from a switch"):
        call(path, "counters")


def test_servers_that_start_together_keep_the_umask(target: Target, tmp_path: Path) -> None:
    """The umask is unchanged after two servers started at the same time.

    Switches of one process share the umask.
    """

    async def scene() -> None:
        servers = [ControlServer(target, target.settings) for _ in range(2)]
        await asyncio.gather(*(s.start(tmp_path / str(n)) for n, s in enumerate(servers)))
        for server in servers:
            server.stop()

    before = os.umask(0o022)
    try:
        asyncio.run(scene())
    finally:
        after = os.umask(before)
    assert after == 0o022


def test_stop_closes_connections(target: Target, tmp_path: Path) -> None:
    """After stop(), a client gets no more answers.

    The process may continue with other switches, but the engine of this switch is closed.
    """
    path = tmp_path / "s.sock"

    async def scene() -> bytes:
        await target.server.start(path)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(request := b'{"call": "counters"}\n')
        assert await reader.readline()
        target.server.stop()
        writer.write(request)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.readline()
        writer.close()
        return answer

    assert asyncio.run(scene()) == b""


def test_a_socket_that_was_left_behind_is_replaced(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def scene() -> None:
        await target.server.start(path)
        target.server.stop()

    asyncio.run(scene())


def test_counters_for_a_reader() -> None:
    port = {"interface": "v1", "received_packets": 3, "received_bytes": 180,
            "transmitted_packets": 0, "transmitted_bytes": 0,
            "queues": {"0": {"packets": 0, "bytes": 0, "drops": 0},
                       "1": {"packets": 2, "bytes": 120, "drops": 1}},
            "drops": {"ingress": 0, "queue": 1, "link": 4}}  # fmt: skip
    counters = {"ports": {"1": port}, "other_ports": {"9": {"drops": {"no_port": 2}}}}
    assert list(described(counters)) == [
        "port 1 (v1): received 3 packets, 180 bytes; sent 0, 0",
        "  queue 1: 2 packets, 120 bytes queued; 1 packets dropped",
        "  dropped: queue 1, link 4",
        "port 9 (no interface)",
        "  dropped: no_port 2",
    ]


def test_another_pipeline_has_other_dice_behind_the_links_by_the_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a link had traffic, a new pipeline gives it a new seed, derived from the configured seed.

    If the settings of a link are changed, its seed stays the same, unless the change sets a seed.
    """
    seeds = []
    sent = {"link": {"sent_packets": 0}}
    monkeypatch.setattr(Engine, "set_link", lambda *_, seed, **rest: seeds.append(seed))
    monkeypatch.setattr(Engine, "port_counters", lambda *_: sent)
    for _ in range(2):
        sent["link"]["sent_packets"] = 0
        target = Target("--link", "2:loss_probability=0.5,seed=7")
        target.settings.reapply(target.dataplane, target.dataplane)
        sent["link"]["sent_packets"] = 1
        target.settings.reapply(target.dataplane, target.dataplane)
        target.ask(call="set_link", port=2, delay_us=10)
        target.settings.reapply(target.dataplane, target.dataplane)
        target.ask(call="set_link", port=2, seed=5)
    assert seeds[:6] == seeds[6:]
    assert seeds[:2] == [7, 7], "before any traffic they are as they were"
    once = seeds[1:6]
    assert once[1] == once[2]
    assert once[4] == 5
    assert len({*once}) == 4


def test_whole_numbers_may_be_floats(target: Target) -> None:
    assert target.ask(call="set_queue", port=1, depth=1e3, rate_bps=1e6) == {"result": None}
    assert target.queue(1, 0) == (1000, 0, 0, 10**6)
    assert Target("--link", "2:rate_bps=1e6,queue_packets=50.0").queue(2, 0)[0] == 50
    with pytest.raises(argparse.ArgumentTypeError, match=r"rate_bps: '1\.5': expected a whole"):
        link("2:rate_bps=1.5")
    for text in ("nan", "inf", "1e400", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number"):
            port_number(text)
