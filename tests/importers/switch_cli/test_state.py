"""Counters, registers, meters and queues by simple_switch_CLI commands."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import finsy as fy
import pytest
from scapy.utils import rdpcap
from switch_console import PORTS, TO_A, Console, on_a_switch

from importers.switch_cli.session import Session


def test_counters_and_registers_are_read_written_and_reset(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 2")
        await console.send(TO_A, number=500, count=3)
        assert await console("counter_read arrivals 1") == ["arrivals[1]= (192 bytes, 3 packets)"]
        assert await console("counter_read by_address 0") == [
            "this is the direct counter for table CommandsIngress.addresses",
            "by_address[0]= (192 bytes, 3 packets)",
        ]
        assert await console("register_read seen 1") == ["seen[1]= 500"]
        await console("""
            counter_write arrivals 3 10 1000
            register_write CommandsIngress.seen 7 4000000000
            counter_write by_address 0 5 50
        """)
        assert await console("counter_read arrivals 3") == ["arrivals[3]= (1000 bytes, 10 packets)"]
        assert (await console("counter_read by_address 0"))[1].endswith("(50 bytes, 5 packets)")
        assert await console("register_read seen") == ["seen= 0, 500, 0, 0, 0, 0, 0, 4000000000"]
        await console("counter_reset arrivals\ncounter_reset by_address\nregister_reset seen")
        assert await console("counter_read arrivals 3") == ["arrivals[3]= (0 bytes, 0 packets)"]
        assert (await console("counter_read by_address 0"))[1].endswith("(0 bytes, 0 packets)")
        assert await console("register_read seen 7") == ["seen[7]= 0"]

    on_a_switch(tmp_path, body)


def test_rates_of_meters_are_units_of_a_microsecond(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console("meter_set_rates pace 2 0.0015:3 0.002:4")
        entry = fy.P4MeterEntry("pace", index=2)
        found: Any = console.switch.read(entry)
        assert [cell.config async for cell in found] == [
            fy.P4MeterConfig(cir=1500, cburst=3, pir=2000, pburst=4)
        ]
        assert await console("meter_get_rates pace 2") == [
            "0: info rate = 0.0015, burst size = 3", "1: info rate = 0.002, burst size = 4",
        ]  # fmt: skip
        await console("meter_array_set_rates pace 0.001:1 0.001:1")
        assert "info rate = 0.001, burst size = 1" in (await console("meter_get_rates pace 3"))[0]
        await console("table_add prefixes metered 10.0.0.0/8 =>")
        await console("meter_set_rates by_prefix 0 1:2000 2:3000")
        assert (await console("meter_get_rates by_prefix 0"))[1] == (
            "1: info rate = 2.0, burst size = 3000"
        )
        await console("meter_array_set_rates by_prefix 3:1 3:1")
        assert (await console("meter_get_rates by_prefix 0"))[0].startswith("0: info rate = 3.0")
        assert console.messages == []
        await console("meter_set_rates pace 0 0.0000005:1 0.00001:1")
        assert console.messages == [
            "typed:1: rate 0.0000005:1: rounded from 0.5 to 1 per second, "
            "because rates are integers"
        ]

    on_a_switch(tmp_path, body)


def test_queues_are_set_on_one_port_or_on_all(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        set_queue: list[tuple[int, dict[str, int]]] = []
        node = SimpleNamespace(set_queue=lambda port, **given: set_queue.append((port, given)))
        console.session = Session(console.switch, node, PORTS, console.messages.append)
        await console("set_queue_rate 1000 3\nset_queue_depth 10\nset_queue_depth 20 2 7")
        assert set_queue == [
            (3, {"rate_pps": 1000}), (1, {"depth": 10}), (2, {"depth": 10}), (3, {"depth": 10}),
            (2, {"depth": 20, "priority": 7}),
        ]  # fmt: skip

    on_a_switch(tmp_path, body)


def test_a_slow_queue_lets_so_many_packets_out_a_second(tmp_path: Path) -> None:
    async def body(console: Console) -> None:
        await console(f"table_add addresses forward {TO_A} => 2")
        await console("set_queue_rate 100 2")
        await console.send(TO_A, count=4)

    on_a_switch(tmp_path, body)
    times_s = [float(packet.time) for packet in rdpcap(str(tmp_path / "network/s1-eth2_out.pcap"))]
    assert [after - before for before, after in pairwise(times_s)] == pytest.approx([0.01] * 3)
