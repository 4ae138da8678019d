"""The collector uses readout packets if P4Runtime cannot read registers."""

import itertools
from pathlib import Path
from typing import NoReturn

import pytest
from block_scene import (
    HASHED,
    METHODS,
    FaultInjector,
    Scene,
    Setting,
    check_known,
    collect,
    unknown,
)
from virtual_networks import virtually

from controllers.ampm.schedule import Schedule
from controllers.ampm.session import SwitchUnreachableError
from controllers.ampm.watch import Method
from minip4.runtime.entities.arrays import Registers
from minip4.runtime.status import unimplemented


def no_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable register reads, as in P4Runtime servers built with PI."""

    def read(_self: Registers, _message: object) -> NoReturn:
        raise unimplemented("registers are not supported")

    monkeypatch.setattr(Registers, "read", read)


@pytest.mark.parametrize("methods", METHODS)
def test_readout_packets_give_the_same_records(
    methods: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = virtually(tmp_path / "asked", lambda run: collect(run, Setting(methods)))
    no_registers(monkeypatch)
    sent = virtually(tmp_path / "sent", lambda run: collect(run, Setting(methods)))
    assert asked.reports == sent.reports


def test_readout_packets_work_over_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a new connection, the collector finds out again whether the server can read registers.

    Otherwise, it could mistake the reply to its first readout packet for a reply with registers.
    """
    no_registers(monkeypatch)

    async def disconnect(scene: Scene, block: int) -> None:
        if block == 1:
            assert scene.collector is not None
            await scene.collector._sessions["s2"].close()

    scene = virtually(tmp_path, lambda run: collect(run, Setting(HASHED, 4, disconnect)))
    assert [report.problems for report in scene.reports] == [[]] * 4
    check_known(scene, HASHED)


@pytest.mark.parametrize(("share", "is_complete"), [(2, True), (1, False)])
def test_lost_readout_packets_are_asked_for_again(
    share: int, is_complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector requests lost readout packets again.

    If every second readout packet is lost, it reads all records. If all of them are lost, the
    records of the switch are unknown.
    """
    no_registers(monkeypatch)

    async def lose(scene: Scene, block: int) -> None:
        if block == 1:
            switch = FaultInjector(scene, "s2").switch
            receive, numbers = switch.cpu_receive, itertools.count()
            switch.cpu_receive = lambda: [f for f in receive() if next(numbers) % share]

    long = Schedule(2**22)
    scene = virtually(tmp_path, lambda run: collect(run, Setting(HASHED, 4, lose, schedule=long)))
    assert unknown(scene, "s2") == ([] if is_complete else [2, 3])
    if not is_complete:
        assert "s2: no response to 5 readout packets" in scene.reports[2].problems[0]


def test_a_switch_without_readouts_is_refused(tmp_path: Path) -> None:
    setting = Setting(options={"s2": ["--cpu-port", "254"]})
    with pytest.raises(SwitchUnreachableError, match="s2: no response to 5 readout packets"):
        virtually(tmp_path, lambda run: collect(run, setting))
