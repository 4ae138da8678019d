"""P4Runtime controller that writes, reads and ages the entries of one switch under load."""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc

from benchmarks.speed.shared.switch_chain import MINIP4, Processes
from minip4.compiler import compile_p4
from telemark.errors import TestbedError
from telemark.processes import run_command

SOURCE = Path(__file__).parents[1] / "p4" / "control_plane.p4"
PACKETS_CORE, CONTROL_CORE = 1, 0
CHUNK = 1000  # number of updates per request that is not atomic
TIMEOUT_NS = 1_000_000_000
IDLE_S = 30  # max wait; every switch reports all expired entries in less time


class Switch:
    """Switch between interfaces g-a and b-t, with the channel of the primary controller."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        program = compile_p4(SOURCE, defines=("MATCH=exact",))
        (folder / "control_plane.json").write_text(json.dumps(program.bmv2_json))
        (folder / "control_plane.txtpb").write_text(str(program.p4info))
        self._counters = folder / "counters.json"
        for left, right in (("g", "a"), ("b", "t")):
            run_command(f"ip link add name {left} type veth peer name {right}")
            for end in (left, right):
                run_command(f"ethtool -K {end} tx off tso off gso off gro off")
                run_command(f"ip link set dev {end} up")
        command = [sys.executable, "-m", "minip4.cli", "switch", str(folder / "control_plane.json"),
                   "--p4info", str(folder / "control_plane.txtpb"), "-i", "1@a", "-i", "2@b",
                   "--grpc-server-addr", "127.0.0.1:29559",
                   "--counters", str(self._counters)]  # fmt: skip
        self.process = processes.start_ready(command)
        _pin_threads(self.process.pid)
        options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
        self._channel = grpc.insecure_channel("127.0.0.1:29559", options=options)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self.aged = 0  # number of received idle notifications
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._become_primary()
        p4info = program.p4info
        self._table = p4info.tables[0].preamble.id
        self._counter = p4info.counters[0].preamble.id
        self._action = next(a for a in p4info.actions if a.preamble.alias == "note").preamble.id

    def _become_primary(self) -> None:
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = 1
        request.arbitration.election_id.low = 1
        self._requests.put(request)
        answers = self._stub.StreamChannel(iter(self._requests.get, None))
        next(answers)
        self._listener = threading.Thread(target=self._listen, args=(answers,), daemon=True)
        self._listener.start()

    def _listen(self, answers: Iterator[p4r.StreamMessageResponse]) -> None:
        for answer in answers:
            self.aged += len(answer.idle_timeout_notification.table_entry)

    def write(
        self, kind: p4r.Update.Type.ValueType, count: int, port: int, *, atomic: bool
    ) -> None:
        """Insert, modify or delete `count` entries in one atomic request or in several requests."""
        updates = [p4r.Update(type=kind, entity=self._entry(i, port)) for i in range(count)]
        size = count if atomic else CHUNK
        atomicity = (
            p4r.WriteRequest.DATAPLANE_ATOMIC if atomic else p4r.WriteRequest.CONTINUE_ON_ERROR
        )
        for start in range(0, count, size):
            part = updates[start : start + size]
            self._write(part, atomicity)

    def read(self) -> int:
        """Read all entries with their counters; return the number of entries."""
        asked = p4r.TableEntry(table_id=self._table, counter_data=p4r.CounterData())
        return sum(1 for _ in self._read(p4r.Entity(table_entry=asked)))

    def count_cells(self) -> int:
        """Write and read all cells of the counter; return the number of cells."""
        all_cells = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=self._counter))
        zero = p4r.Entity()
        zero.CopyFrom(all_cells)
        zero.counter_entry.data.packet_count = 0
        self._write(
            [p4r.Update(type=p4r.Update.MODIFY, entity=zero)], p4r.WriteRequest.CONTINUE_ON_ERROR
        )
        return sum(1 for _ in self._read(all_cells))

    def await_idle(self, times: int) -> None:
        """Wait for `times` idle notifications, at most IDLE_S seconds."""
        deadline_s = time.monotonic() + IDLE_S
        while self.aged < times and time.monotonic() < deadline_s:
            time.sleep(0.1)

    def stop(self) -> dict[str, Any]:
        """Terminate the switch and return its counters."""
        self._requests.put(None)
        self._listener.join()
        self._channel.close()
        self.process.terminate()
        if self.process.wait(timeout=60):
            raise TestbedError(f"{MINIP4}: exit status {self.process.returncode}")
        counters: dict[str, Any] = json.loads(self._counters.read_text())
        return counters

    def _write(
        self, updates: Sequence[p4r.Update], atomicity: p4r.WriteRequest.Atomicity.ValueType
    ) -> None:
        request = p4r.WriteRequest(device_id=1, updates=updates, atomicity=atomicity)
        request.election_id.low = 1
        self._stub.Write(request)

    def _read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        for response in self._stub.Read(p4r.ReadRequest(device_id=1, entities=[entity])):
            yield from response.entities

    def _entry(self, number: int, port: int) -> p4r.Entity:
        entity = p4r.Entity()
        entry = entity.table_entry
        entry.table_id = self._table
        match = entry.match.add(field_id=1)
        match.exact.value = (0x0A000000 + number).to_bytes(4, "big")
        entry.action.action.action_id = self._action
        entry.action.action.params.add(param_id=1, value=bytes((port,)))
        entry.idle_timeout_ns = TIMEOUT_NS
        return entity


def _pin_threads(pid: int) -> None:
    """Pin the packet thread to one core and Python to the other, both at real-time priority.

    Otherwise a thread could lose its core while it holds the lock. The hold would then include
    other load.
    """
    for task in Path(f"/proc/{pid}/task").iterdir():
        is_packets = (task / "comm").read_text().strip() == "minip4-ports"
        os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))
        os.sched_setaffinity(int(task.name), {PACKETS_CORE if is_packets else CONTROL_CORE})
