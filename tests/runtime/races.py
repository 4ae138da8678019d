"""Writes and reads of a controller, each between two frames, under ThreadSanitizer.

python races.py [FUNCTION]

test_races.py runs this with libtsan preloaded, in its own namespaces.

The process ends with status RACE if the threads of data plane and controller access the same word
without a common lock. After each call, a frame passes before the controller takes a lock again. So
a race occurs in each run, not only by chance.

FUNCTION is a function of the engine's C code. It is built so that it does not take the lock. Then
the process must end with status RACE.
"""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from finsy.proto import p4r
from harness import compiled, config, delete, entry, exact, insert, lpm, modify, perform, ternary
from rig import FRAME, Host, make_links
from test_extras import digest, group, known_source, member, meter, one_shot, to, value_set
from test_state import clone, counter, multicast, register

from minip4 import engine
from minip4.engine.control.trace import Trace
from minip4.engine.engine import Engine
from minip4.native import build
from minip4.ports.driver import Driver
from minip4.runtime.service.pipeline import Pipeline

LOCKING = re.compile(r"\b(lock_take|lock_give|engine_lock|engine_unlock)\(")
DESTINATION = exact(FRAME[:6])
ATOMIC = p4r.WriteRequest.DATAPLANE_ATOMIC


class Scene:
    """A switch with a program between v1 and v2, and the hosts p1 and p2 at the other ends."""

    def __init__(self, program: str) -> None:
        self.engine = Engine(compiled(program).bmv2_json, trace=True)
        self.trace = Trace(self.engine)
        self.pipeline = Pipeline(config(program), self.engine)
        self.driver = Driver(self.engine, {1: "v1", 2: "v2"})
        self.hosts = Host("p1"), Host("p2")
        self.driver.start()

    def pass_frame(self, frame: bytes = FRAME) -> None:
        """Send a frame and receive it at the other host. Writes keep the entry that forwards it."""
        left, right = self.hosts
        left.send(frame)
        assert right.receive()[14:] == frame[14:]

    def write(self, *updates: p4r.Update, atomicity: int = 0) -> None:
        errors = perform(self.pipeline, updates, atomicity)
        assert not any(errors), errors

    def read(self, *entities: p4r.Entity) -> None:
        for entity in entities:
            for _ in self.pipeline.read(entity):
                pass

    def stop(self) -> None:
        self.driver.stop()
        self.engine.close()


def control_calls(scene: Scene) -> Iterator[Callable[[], object]]:
    """Yield calls that access tables of each kind, counters, registers, groups, links and queues.

    Other calls read the counters of the switch.
    """
    engine = scene.engine
    stamp = {"port": b"\2", "first": b"\1", "between": b"\1", "second": b"\1"}
    switching = {"hdr.ethernet.destination": DESTINATION}
    forward = entry("switching", switching, ("forward", {"port": b"\2"}))
    scene.write(insert(forward))
    ip = (
        FRAME[:12]
        + bytes.fromhex("0800 4500 001c 0000 0000 4011 0000 0a000001 0a000002")
        + bytes(8)
    )
    route = entry("route", {"hdr.ipv4.destination": lpm(b"\x0a\0\0\0", 8)},
                  ("forward", {"port": b"\2"}))  # fmt: skip
    wanted = {"hdr.ipv4.source": ternary(b"\x0a\0\0\1", b"\xff\xff\xff\xff"),
              "standard_metadata.ingress_port": exact(b"\1")}  # fmt: skip
    acl = entry("acl", wanted, ("NoAction", {}), priority=5)
    default = entry("switching", {}, ("forward", {"port": b"\2"}), is_default_action=True)
    default_none = entry("switching", {}, None, is_default_action=True)

    def passed(
        *updates: p4r.Update, frame: bytes = FRAME, atomicity: int = 0
    ) -> Callable[[], object]:
        def write_and_pass() -> None:
            scene.write(*updates, atomicity=atomicity)
            scene.pass_frame(frame)

        return write_and_pass

    stamped = modify(entry("switching", switching, ("stamp", stamp)))
    yield passed(stamped)
    yield passed(insert(other(0)), delete(other(0)), modify(forward), atomicity=ATOMIC)
    yield passed(stamped)
    yield passed(*(insert(other(i)) for i in range(300)))  # the index of the table grows
    yield passed(*(delete(other(i)) for i in range(300)), atomicity=ATOMIC)
    yield passed(modify(default))
    yield passed(delete(forward))
    yield passed(insert(forward), modify(default_none))
    yield passed(insert(route), frame=ip)
    yield passed(modify(route), frame=ip)
    place = p4r.TableEntry(table_id=route.table_entry.table_id, match=route.table_entry.match)
    count = p4r.DirectCounterEntry(table_entry=place, data=p4r.CounterData(packet_count=7))
    yield passed(modify(p4r.Entity(direct_counter_entry=count)), frame=ip)
    yield passed(insert(acl), frame=ip)
    yield passed(delete(acl), frame=ip)
    data = p4r.CounterData(packet_count=1)
    yield passed(modify(counter("port_counter", 1, data)))
    yield passed(modify(register("last_seen", 0, b"\1")))
    yield passed(modify(register("wide", None, b"\1")))
    yield passed(insert(multicast(3, (2, 1))))
    yield passed(modify(entry("switching", switching, ("multicast", {"group": b"\3"}))))
    yield passed(modify(multicast(3, (2, 7))))
    yield passed(modify(forward), delete(multicast(3)))
    table = entry("route", {}, None, counter_data=p4r.CounterData())
    for asked in (table, counter("port_counter", None), register("wide", None),
                  p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry())):  # fmt: skip
        yield lambda asked=asked: scene.read(asked)
        scene.pass_frame(ip)
    yield lambda: engine.set_link(2, rate_bps=10**9)
    yield lambda: engine.set_queue(2, 0, depth_packets=50)
    yield lambda: engine.queues(2, 1)
    yield engine.drops
    yield engine.counters
    yield lambda: engine.port_counters(1)
    yield lambda: list(scene.trace.blocks())
    yield scene.driver.counters
    yield scene.driver.wake


def other(number: int) -> p4r.Entity:
    key = {"hdr.ethernet.destination": exact(b"\6" + number.to_bytes(4, "big"))}
    return entry("switching", key, ("drop", {}))


def extras_calls(scene: Scene) -> Iterator[Callable[[], object]]:
    """Yield calls that access profiles, meters, digests, value sets and clone sessions.

    Other calls access idle timeouts.
    """
    alone = "direct.implementation"
    target = to("direct", action_profile_member_id=1)
    balanced = to("balanced", action_profile_group_id=7)
    scene.write(insert(member(1, 2, alone)), insert(target))
    scene.write(insert(digest(max_list_size=1)))

    def written(*updates: p4r.Update) -> Callable[[], object]:
        return lambda: scene.write(*updates)

    yield written(modify(member(1, 2, alone)))
    yield written(insert(member(2, 2, alone)))
    yield written(insert(member(1, 2)), insert(member(2, 2)), insert(group(7, (1, 1))))
    yield written(insert(balanced), delete(target))
    yield written(modify(group(7, (1, 1), (2, 3))))
    yield written(modify(to("balanced", action_profile_action_set=one_shot(2, 2))))
    yield written(delete(group(7)), delete(member(2, 2)))
    rates = p4r.MeterConfig(cir=10**6, cburst=1000, pir=10**6, pburst=1000)
    yield written(modify(meter(1, rates)))
    asked = meter(None)
    asked.meter_entry.counter_data.SetInParent()
    yield lambda: scene.read(asked)
    yield written(modify(asked))
    source = known_source(idle_timeout_ns=10**9)
    yield written(insert(source))
    place = p4r.TableEntry(table_id=source.table_entry.table_id, match=source.table_entry.match)
    counts = p4r.MeterCounterData()
    limit = p4r.DirectMeterEntry(table_entry=place, config=rates, counter_data=counts)
    yield written(modify(p4r.Entity(direct_meter_entry=limit)))
    yield lambda: scene.read(p4r.Entity(direct_meter_entry=limit))
    yield lambda: list(scene.pipeline.tables.idle())
    yield written(delete(source))
    yield scene.engine.digests
    yield written(modify(value_set(0x4321, 0x1235)))
    yield written(insert(clone(5, (1, 1))))
    copied = entry("copied", {"hdr.ethernet.type": exact(FRAME[12:14])}, ("copy", {}),
                   program_name="extras")  # fmt: skip
    yield written(insert(copied))
    yield written(modify(clone(5, (1, 2))))
    yield written(delete(copied), delete(clone(5)))


def run(program: str, calls: Callable[[Scene], Iterator[Callable[[], object]]]) -> None:
    scene = Scene(program)
    for touch in calls(scene):
        scene.pass_frame()
        touch()
        scene.pass_frame()
    scene.stop()


def without_lock(function: str, folder: Path) -> None:
    """Let engines be built from a copy of the C code in which a function takes no lock."""
    shutil.copytree(engine.C_FOLDER, folder, dirs_exist_ok=True)
    found = 0
    for path in folder.glob("*.c"):
        text = path.read_text()
        for body in re.findall(rf"^\w[^;\n]*\b{function}\([^;]*?^{{\n.*?^}}\n", text, re.M | re.S):
            kept = [line for line in body.splitlines(keepends=True) if not LOCKING.search(line)]
            found += len(kept) < len(body.splitlines())
            text = text.replace(body, "".join(kept))
        path.write_text(text)
    assert found == 1, f"{found} functions {function} take the lock"
    engine.C_FOLDER = folder


def main() -> None:
    build._mode = lambda sanitize: ("-std=gnu11", "-O1", "-g1", "-fsanitize=thread")
    with TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            without_lock(sys.argv[1], Path(folder))
        make_links()
        run("control", control_calls)
        run("extras", extras_calls)


if __name__ == "__main__":
    main()
