"""Ten million records over RoCE at full rate: does memory contain exactly the delivered records?

A sender writes numbered records over a veth pair to the software RoCE responder (UC), each record
to its own slot. One record in a thousand has a bit error, which the iCRC must detect. Then the
whole region is compared. Each record that the responder did not reject and the kernel did not drop
must be in its slot, byte for byte. All other slots must be empty.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from benchmarks.speed.shared.switch_chain import FOLDER
from collectors.roce import C_FOLDER
from collectors.roce.endpoint import Peer, Target, Transport
from collectors.roce.packets import BTH, RETH, UC, Op
from collectors.roce.raw_socket_nic import RawSocketNic
from collectors.roce.region import TCP, Region
from collectors.roce.softnic import SoftNic
from minip4.native.build import program
from telemark.errors import BusyMachineError, note_invalid
from telemark.processes import LineProcess, run_command
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

RECORDS, QUICK_RECORDS = 10_000_000, 100_000
SHARE = 1_000_000  # number of records between two progress messages
SPOILED_EVERY = 1000
COLLECTOR, WRITER = "10.66.0.2", Peer("10.66.0.1", qpn=0x100, psn=0)
MACS = {"collector": "02:00:00:00:00:02", "sender": "02:00:00:00:00:01"}
# increments of the words from one record to the next, see number.c
FACTORS = np.arange(1, TCP.itemsize // 2, 2, dtype=np.uint32)
IDLE_TIMEOUT_S = 2.0  # missing records count as lost if no frame arrives for this time
MAX_DROPPED = 0.9
NO_IPV6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")


class SlotCounts(NamedTuple):
    """Numbers of slots with the right content, without content, and with wrong content."""

    right: int  # slots with their own record, byte for byte
    empty: int
    wrong: int  # slots with any other content

    @classmethod
    def of_slots(cls, slots: NDArray[Any], first: int) -> "SlotCounts":
        """Count the slots (array of TCP) of record `first` and the records after it."""
        words = slots.view(">u4").reshape(len(slots), -1)
        numbers = np.arange(first, first + len(slots), dtype=np.uint32)
        is_empty = ~words.any(axis=1)
        is_right = (words == (numbers[:, None] + 1) * FACTORS).all(axis=1)
        is_right &= numbers % SPOILED_EVERY != 0
        return cls(int(is_right.sum()), int(is_empty.sum()), int((~is_right & ~is_empty).sum()))


class Outcome(NamedTuple):
    """Numbers of records that were sent, accepted, rejected, dropped and found in memory."""

    sent: int
    spoiled: int  # number of records sent with a bit error
    accepted: int  # this field and the next two are counters of the responder
    refused: int  # rejected because of a wrong iCRC
    refused_else: int
    dropped: int  # dropped by the kernel, because a packet socket ring or a veth queue was full
    right: int
    empty: int
    wrong: int
    records_per_s: float


def write_template(path: Path, target: Target) -> None:
    """Write the frame of record 0 without the record and the iCRC."""
    header = RETH(va=target.base, rkey=target.rkey, length=TCP.itemsize)
    bth = BTH(opcode=Op.WRITE_ONLY | UC, dqpn=target.qpn, icrc=0)
    ip = IP(src=WRITER.address, dst=COLLECTOR, flags="DF") / UDP(sport=49152, chksum=0)
    ether = Ether(src=MACS["sender"], dst=MACS["collector"])
    path.write_bytes(bytes(ether / ip / bth / header / Raw(bytes(TCP.itemsize))))


@contextmanager
def veth() -> Iterator[None]:
    """Set up a veth pair "sender" - "collector" on which the kernel sends no packets."""
    if NO_IPV6.exists():
        NO_IPV6.write_text("1")
    run_command(f"ip link add collector address {MACS['collector']} type veth "
        f"peer sender address {MACS['sender']}")  # fmt: skip
    try:
        run_command(f"ip address add {COLLECTOR}/24 dev collector")
        for end in MACS:
            run_command(f"ip link set {end} up")
        yield
    finally:
        run_command("ip link delete collector")


def count_records(nic: SoftNic, card: RawSocketNic) -> tuple[int, int, int, int]:
    """Return the numbers of accepted records, iCRC errors, other refusals and drops."""
    counts = nic.counts()
    refused = counts.refused["ICRC"]
    between = json.loads(run_command("ip -j -s link show sender"))[0]["stats64"]["tx"]["dropped"]
    return (counts.accepted.total(), refused, counts.refused.total() - refused,
            card.drops() + between)  # fmt: skip


def await_all(nic: SoftNic, card: RawSocketNic, sent: int) -> tuple[int, int, int, int]:
    """Wait until all sent records are counted or no more records arrive; return the counts."""
    before, changed_s = (-1, -1, -1, -1), time.monotonic()
    while (
        sum(now := count_records(nic, card)) != sent
        and time.monotonic() < changed_s + IDLE_TIMEOUT_S
    ):
        if now != before:
            before, changed_s = now, time.monotonic()
        time.sleep(0.01)
    return now


def send_records(count: int, run: Run) -> Outcome:
    """Send `count` records and compare the region. Raises TestbedError."""
    region = Region(TCP, count)
    nic = SoftNic(COLLECTOR, mac=MACS["collector"])
    target = nic.connect(nic.register(region), WRITER, transport=Transport.UC)
    write_template(run.folder / "frame", target)
    path = program([FOLDER / "c" / "number.c", C_FOLDER / "crc.c"], include=[C_FOLDER])
    command = (path, "sender", run.folder / "frame", SPOILED_EVERY)
    with veth(), LineProcess("record sender", *command) as sender:
        sender.read_line()  # the sender is ready
        card = RawSocketNic(nic, "collector")
        begun_s = time.monotonic()
        for first in range(0, count, SHARE):
            run.progress.update(f"sending {count:,} records, starting at {first:,}")
            sender.ask(f"{first} {min(SHARE, count - first)}")  # it answers after the last record
        taken_s = time.monotonic() - begun_s
        counts = await_all(nic, card, count)
        card.close()
    held = []
    for first in range(0, count, SHARE):
        run.progress.update(f"comparing {count:,} slots, starting at {first:,}")
        held.append(SlotCounts.of_slots(region.records[first : first + SHARE], first))
    right, empty, wrong = (sum(each) for each in zip(*held, strict=True))
    return Outcome(count, len(range(0, count, SPOILED_EVERY)), *counts, right, empty, wrong,
                   counts[0] / taken_s)  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "real", "this benchmark measures real time")
    return report(send_records(QUICK_RECORDS if options.quick else RECORDS, run))


def report(found: Outcome) -> Report:
    """Compare the region with the counters; inconclusive if most records were dropped."""
    if found.dropped > MAX_DROPPED * found.sent:
        share = found.dropped / found.sent
        note_invalid(BusyMachineError(f"the kernel dropped {share:.0%} of the records"))
    kept = found.sent - found.refused - found.refused_else - found.dropped
    columns = ("sent", "spoiled", "refused", "dropped", "in their slots", "empty", "wrong",
               "million/s")  # fmt: skip
    row = (found.sent, found.spoiled, found.refused, found.dropped, found.right, found.empty,
           found.wrong, found.records_per_s / 1e6)  # fmt: skip
    return Report(
        samples=[found._asdict()],
        checks=[
            Check("records in their slots", found.right, kept),
            Check("records counted by the responder", found.accepted, found.right),
            Check("slots with wrong content", found.wrong, 0),
            Check("frames refused without a bit error",
                  found.refused_else + max(0, found.refused - found.spoiled), 0),
        ],
        tables=[table("Records and slots", columns, [row])],
        machine_columns=("records_per_s",),
    )  # fmt: skip


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
