"""Scenes with a real switch between veth pairs.

test_switch.py runs each scene in its own network namespace:

python live.py SCENE FOLDER

The exit status is 0 if all assertions of the scene hold.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import finsy as fy
import grpc
from finsy.proto import p4r_grpc
from harness import PROGRAMS, arbitration
from live_hostile import hostile_programs, many_programs
from live_machine import full_disk, interfaces, many_ports
from rig import DEADLINE_S, FORWARDED, FRAME, MINIP4, Flow, Host, Switch, make_links

from minip4.native import build
from minip4.runtime.switch.control import call

STRESS = 300_000  # number of frames


async def finsy(folder: Path) -> None:
    """finsy pushes the pipeline, fills tables, exchanges packets, and reads state of a switch.

    After finsy has disconnected, the switch still forwards.
    """
    switch = Switch(folder)
    left, right = Host("p1"), Host("p2")
    async with switch.controller() as sw:
        await sw.write(
            [
                +fy.P4TableEntry(
                    "switching",
                    match=fy.Match(destination="02:00:00:00:00:02"),
                    action=fy.Action("to_cpu", reason=5),
                ),
                +fy.P4TableEntry(
                    "switching",
                    match=fy.Match(destination="02:00:00:00:00:03"),
                    action=fy.Action("forward", port=2),
                ),
            ]
        )
        packets = sw.read_packets()
        left.send(FRAME)
        packet = await asyncio.wait_for(anext(packets), DEADLINE_S)
        assert packet.payload == FRAME
        assert (packet["ingress_port"], packet["reason"]) == (1, 5)
        await sw.write(fy.P4PacketOut(FRAME, egress_port=2, padding=0))
        assert right.receive() == FRAME
        entries = [e async for e in sw.read(fy.P4TableEntry("switching"))]
        assert len(entries) == 2
        (count,) = [c async for c in sw.read(fy.P4CounterEntry("port_counter", index=1))]
        assert (count.packet_count, count.byte_count) == (1, len(FRAME))
        (seen, *_) = [r.data async for r in sw.read(fy.P4RegisterEntry("last_seen"))]
        assert 0 <= time.monotonic_ns() // 1000 - seen < 60_000_000
        (wide,) = [r.data async for r in sw.read(fy.P4RegisterEntry("wide", index=0))]
        assert wide == int.from_bytes(FRAME[6:12] + FRAME[:6] + bytes((0, 0, 0, 1)), "big")
    left.send(FORWARDED)  # the switch has no controller now
    assert right.receive() == FORWARDED
    counters = switch.stop()
    cpu = counters["cpu"]
    assert (cpu["packet_in"], cpu["packet_in_dropped"], cpu["packet_out"]) == (1, 0, 1)
    one = counters["ports"]["1"]
    assert one["interface"] == "v1"
    assert (one["received_packets"], one["kernel"]["receive_drops"]) == (2, 0)
    engine = counters["engine"]
    drops = sum(value for name, value in engine.items() if name.endswith("drops"))
    assert engine["received"] + engine["replicas"] == engine["transmitted"] + drops


async def killed(folder: Path) -> None:
    """When a controller is killed, the switch forwards all frames, and accepts a new controller."""
    switch = Switch(folder, p4info=True)
    left, right = Host("p1"), Host("p2")
    controller = subprocess.Popen(
        [sys.executable, __file__, "forward_and_hang", str(folder), switch.address],
        stdout=subprocess.PIPE,
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"written\n"
    flow = Flow(left, right)
    async with grpc.aio.insecure_channel(switch.address) as channel:
        backup = p4r_grpc.P4RuntimeStub(channel).StreamChannel()
        await backup.write(arbitration(0))
        assert (await backup.read()).arbitration.election_id.low  # a primary exists
        await flow.more(200)
        controller.kill()
        controller.wait()
        status = (await asyncio.wait_for(backup.read(), DEADLINE_S)).arbitration.status
        # the switch has noticed that the controller is gone
        assert status.code == grpc.StatusCode.NOT_FOUND.value[0]
        await flow.more(200)
    flow.stop()
    async with switch.controller() as sw:
        await sw.delete_all()
        left.send(FORWARDED)  # no table matches, so the frame is dropped or leaves by port 0
        await sw.write(fy.P4PacketOut(FRAME, egress_port=2, padding=0))
        assert right.receive() == FRAME
    switch.stop()


async def forward_and_hang(folder: Path, address: str) -> None:
    """Run the controller that killed() kills: write an entry, and then wait."""
    options = fy.SwitchOptions(p4info=folder / "control.p4info.txtpb")
    async with fy.Switch("s1", address, options) as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        await sw.write([+fy.P4TableEntry("switching", match=match,
                                         action=fy.Action("forward", port=2))])  # fmt: skip
        print("written", flush=True)
        await asyncio.sleep(DEADLINE_S)


async def start(folder: Path) -> None:
    """A switch starts, needs less than 80 MB, and answers a client of P4Runtime."""
    switch = Switch(folder, p4info=True)
    print(f"ready after {switch.start_s:.2f} s, {switch.rss_mb():.0f} MB")
    assert switch.rss_mb() < 80
    async with switch.controller() as sw:
        entries = [e async for e in sw.read(fy.P4TableEntry("fixed"))]
        assert len(entries) == 1
    command = [*MINIP4, "tables", "--grpc-server-addr", switch.address, "fixed"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "hdr.ethernet.type=0x88cc -> MyIngress.drop() (const)" in shown
    switch.stop()


async def no_program(folder: Path) -> None:
    """A switch without a program drops packets until a controller loads one (--no-p4)."""
    switch = Switch(folder, "--thrift-port", "9090", "--", "--seed", "1",
                    command=("switch", "--no-p4"))  # fmt: skip
    await _forwards(switch, is_loaded=False)


async def run_source(folder: Path) -> None:
    """`minip4 run` compiles a program and runs it."""
    await _forwards(Switch(folder, command=("run", PROGRAMS / "control.p4")), is_loaded=True)


async def _forwards(switch: Switch, *, is_loaded: bool) -> None:
    left, right = Host("p1"), Host("p2")
    if not is_loaded:
        left.send(FORWARDED)
    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
        left.send(FORWARDED)
        assert right.receive() == FORWARDED
    engine = switch.stop()["engine"]
    assert (engine["received"], engine["transmitted"]) == (1 if is_loaded else 2, 1)


async def control(folder: Path) -> None:
    """Commands change links and queues while frames flow. The trace contains each frame."""
    sock, trace = folder / "s.sock", folder / "trace.txt"
    switch = Switch(folder, "--control", str(sock), "--trace", str(trace),
                    "--link", "2:rate_bps=1", "--queue", "2:depth=2", p4info=True)  # fmt: skip
    left, right = Host("p1"), Host("p2")

    def minip4(*words: str) -> str:
        command = [*MINIP4, "control", str(sock), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:02")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
        minip4("set-link", "2:rate_bps=0,loss_probability=1")
        left.send(FRAME)
        while not call(sock, "counters")["ports"]["2"]["drops"]["link"]:
            await asyncio.sleep(0.01)
        minip4("set-link", "2:loss_probability=0")
        minip4("set-queue", "2:rate_bps=8")  # a rate of one frame per minute
        for number in range(5):  # the first frame leaves, two wait, two are dropped
            left.send(FRAME[:-1] + bytes([number]))
        while call(sock, "counters")["ports"]["2"]["drops"]["queue"] < 2:
            await asyncio.sleep(0.01)
        assert "  queue 0: 2 packets, 120 bytes queued; 2 packets dropped\n" in minip4("counters")
        minip4("set-queue", "2:rate_bps=0")  # the frames that wait leave immediately
        assert [right.receive()[-1] for _ in range(3)] == [0, 1, 2]
    counters = switch.stop()
    assert not sock.exists()
    drops = {k: v for k, v in counters["ports"]["2"]["drops"].items() if v}
    assert drops == {"link": 1, "queue": 2}
    blocks = trace.read_text().strip().split("\n\n")
    assert len(blocks) == 6
    assert "and lost by the link" in blocks[0]
    assert sum("dropped, queue: the queue was full" in block for block in blocks) == 2
    assert all("table MyIngress.switching" in block for block in blocks)


async def stress(folder: Path) -> None:
    """A controller modifies an entry all the time, while frames arrive as fast as possible.

    No frame misses the entry, and none is written by parts of two entries.
    """
    blast = str(build.program([Path(__file__).with_name("blast.c")]))
    switch = Switch(folder, p4info=True)
    async with switch.controller() as sw:
        await sw.write([+stamped(0)])
        checker = await asyncio.create_subprocess_exec(blast, "p2", stdout=subprocess.PIPE)
        assert checker.stdout is not None
        await checker.stdout.readline()
        sender = await asyncio.create_subprocess_exec(
            blast, "p1", str(STRESS), stdout=subprocess.PIPE
        )
        writes, start = 0, time.monotonic()
        while sender.returncode is None:
            await sw.write([+other(writes + i) for i in range(50)])
            await sw.write([~stamped(writes + i) for i in range(400)])
            await sw.write([-other(writes + i) for i in range(50)])
            writes += 500
        elapsed_s = time.monotonic() - start
    sent = json.loads((await sender.communicate())[0])["sent"]
    counters = switch.stop()
    checker.terminate()
    seen = json.loads((await checker.communicate())[0])
    print(f"{writes / elapsed_s:.0f} writes/s beside {sent / elapsed_s:.0f} frames/s offered, "
          f"{seen['received'] / elapsed_s:.0f} frames/s forwarded")  # fmt: skip
    assert seen["torn"] == 0
    engine, one = counters["engine"], counters["ports"]["1"]
    assert engine["transmitted"] + engine["queue_drops"] == engine["received"]
    # each frame matched the entry
    assert counters["ports"]["2"]["transmitted_packets"] == engine["transmitted"]
    assert one["received_packets"] + one["kernel"]["receive_drops"] == sent
    assert seen["received"] > 10_000  # more frames than the ring of the socket holds


def stamped(value: int) -> fy.P4TableEntry:
    """Return an entry that writes one number, made of `value`, into both addresses of a frame."""
    twice = value * 0x0101_0101
    return fy.P4TableEntry(
        "switching",
        match=fy.Match(destination="02:00:00:00:00:02"),
        action=fy.Action("stamp", port=2, first=twice, between=value, second=twice),
    )


def other(value: int) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        "switching",
        match=fy.Match(destination=0x0600_0000_0000 + value),
        action=fy.Action("drop"),
    )


SCENES = {
    scene.__name__: scene
    for scene in (
        control,
        finsy,
        full_disk,
        hostile_programs,
        interfaces,
        killed,
        many_ports,
        many_programs,
        no_program,
        run_source,
        start,
        stress,
    )
}

if __name__ == "__main__":
    if sys.argv[1] == "forward_and_hang":
        asyncio.run(forward_and_hang(Path(sys.argv[2]), sys.argv[3]))
    else:
        make_links()
        asyncio.run(SCENES[sys.argv[1]](Path(sys.argv[2])))
