"""rdma_rxe (Linux) in a virtual machine on the collector host, as responder or requester.

Available only in real time, if ./setup.sh --rdma has installed a kernel for the virtual machine.
"""

import argparse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from collectors.roce.application import Responder, Writer
from collectors.roce.region import Region
from collectors.roce.verbs import Verbs
from controllers.connection import connections
from controllers.roce.queue_pair import mac_of
from controllers.roce.session import configure
from experiments.shared.roce.real_session import LENGTH, TRANSPORTS, RealSession, by_kind
from experiments.shared.roce.reporting import (
    COLLECTOR,
    COLLECTOR_ADDR,
    PEER,
    RECEIVER,
    RECORDS,
    Collection,
    FrameRecorder,
    Running,
    Taken,
    network,
    writing,
)
from telemark.accounting import pcap
from telemark.backends.real.vm import machine
from telemark.backends.real.vm.host import machine_at
from telemark.session.run import Run

FILE = Path("/tmp/records")  # file in memory of the virtual machine
WRITTEN_TO = "h1"  # host whose memory rxe writes
SETTLE_NS = 500_000_000  # wait until an emulated machine has received all packets in flight


def lacking(options: argparse.Namespace) -> str:
    """Return the reason why a run cannot use rxe; empty if it can."""
    if options.time == "virtual":
        return "virtual time has no virtual machine"
    if options.quick:
        return "a virtual machine takes longer to start than --quick allows"
    return machine.missing() or ""


@asynccontextmanager
async def reporting_to_rxe(
    run: Run, name: str, collection: Collection, rate_bps: int, program: str
) -> AsyncIterator[tuple[Running, Taken]]:
    """Run a network like reporting(), but with rxe as responder.

    The frame recorder is the only application.
    """
    taken = Taken()
    with network(run, name, rate_bps, program) as net:
        net.run_application(RECEIVER, FrameRecorder())
        with machine_at(
            net.host(COLLECTOR), run.folder / "vm", {PEER.address: mac_of(PEER)}
        ) as started:
            endpoint = started.make(Verbs, COLLECTOR_ADDR)
            region = started.make(Region, RECORDS[collection.content], collection.slots, FILE)
            target = endpoint.connect(endpoint.register(region), PEER,
                                      transport=collection.transport)  # fmt: skip
            async with writing(net, collection, target) as running:
                yield running, taken
                await run.clock.sleep_until(run.clock.now_ns() + SETTLE_NS)
            taken.file, taken.counts = started.call(Path.read_bytes, FILE), endpoint.counts()


async def live(run: Run, rate_bps: int, program: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of the packets of a live rxe session by KINDS, like captured()."""
    with network(run, "rxe", rate_bps, program) as net:
        host = net.host(WRITTEN_TO)
        with machine_at(net.host(COLLECTOR), run.folder / "vm", {host.IP(): host.MAC()}) as started:
            session = RealSession(started, COLLECTOR_ADDR)
            responder = Responder(host.IP(), [
                Writer(peer, np.dtype("u1"), LENGTH, transport=transport)
                for peer, transport in zip(session.peers, TRANSPORTS, strict=True)
            ])  # fmt: skip
            net.run_application(WRITTEN_TO, responder)
            async with connections(net) as switches:
                await configure(net, switches, {})
            session.carry_out(responder.targets)
            # an unreliable connection (UC) has no responses
            await run.clock.sleep_until(run.clock.now_ns() + SETTLE_NS)
    sent = pcap.read(net.capture("s2", COLLECTOR, "in"))
    return by_kind(
        [row[:length].tobytes() for row, length in zip(sent.bytes, sent.length, strict=True)]
    )
