"""RoCE headers: does each field of packets of the switch have the value of a real RoCE session?

The RoCE stack of Linux (rdma_rxe) executes each operation that the switch supports: WRITE ONLY,
with and without an immediate value, and FETCH ADD, over a reliable and an unreliable connection.
Packets of rdma_rxe are compared with packets of the switch, field by field. Each field must have
either the same value or the value that follows from the session, which is computed independently.
The exceptions are three fields that a sender may choose. In real time, rdma_rxe runs in a virtual
machine, if the machine is installed (./setup.sh --rdma). It sends to the responder of Telemark.
Otherwise, and with --quick, packets of rdma_rxe come from a capture of 2026-11-22, which
tests/collectors/roce/test_roce_rxe.py compares with a live session.

Claim: Each header field of packets of the switch has the value that a real RDMA session gives it.

Published: "Collecting telemetry data using P4 and RDMA" (Beltman and Knossen, INDIS 2020): a P4
switch can maintain the state of an RDMA session and compute the iCRC. A record has 44 bytes.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from rich.table import Table
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from collectors.roce.endpoint import Transport
from collectors.roce.packets import icrc
from controllers.roce.session import Content, Session
from controllers.roce.watch import RecordAction, RecordedFlow
from experiments.shared.roce import rxe
from experiments.shared.roce.real_session import KINDS, captured, fields
from experiments.shared.roce.reporting import PROGRAM, Collection, reporting
from telemark.accounting import pcap
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

RATE_BPS, SETTLE_NS = 1_000_000_000, 100_000_000
CELL = 3  # index of the memory cell of FETCH ADD
CHOSEN = {
    "IP id": "0, because it is not needed with the DF flag (RFC 6864, 4.1)",
    "UDP sport": "entropy of the flow (IBTA A17.3.2)",
    "BTH migreq": "1 (migrated), the state without path migration (IBTA 9.2.3); rxe sends 0",
}
SAME, OF_SESSION, FREE, WRONG = range(4)
VERDICTS = ("same value", "value of this session", "sender's choice", "wrong")


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_program_option(parser, PROGRAM)


@dataclass(frozen=True)
class Sent:
    """Frame that the switch sent, and the session to which it belongs."""

    kind: str
    frame: bytes
    session: Session
    mac: str  # MAC address of the collector

    def given(self) -> Mapping[str, Any]:
        """Expected values of fields that depend on the session or on the bytes of the frame."""
        target, peer = self.session.target, self.session.peer
        network = Ether(self.frame)[IP].copy()
        del network.chksum
        offset = 8 * CELL if "FETCH" in self.kind else 0
        return {
            "Ethernet dst": self.mac, "Ethernet src": self.session.mac,
            "IP src": peer.address, "IP dst": target.address,
            "IP chksum": IP(bytes(network)).chksum,
            "BTH dqpn": target.qpn, "BTH psn": peer.psn,
            "BTH icrc": int.from_bytes(icrc(self.frame[14:-4]), "big"),
            "RETH va": target.base, "RETH rkey": target.rkey, "ImmDt data": 0,
            "AtomicETH va": target.base + offset, "AtomicETH rkey": target.rkey,
        }  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Comparison of one field of a packet."""

    kind: str
    field: str
    ours: Any
    reference: Any
    expected: Any
    verdict: int


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    lacking = rxe.lacking(options)
    reference = captured() if lacking else await rxe.live(run, RATE_BPS, options.program)
    origin = f"from a capture: {lacking}" if lacking else "live"
    rows: list[Row] = []
    for kind in KINDS:
        rows += compare(await send(kind, options.program, run), reference[kind])
    return Report(
        samples=[
            {"kind": row.kind, "field": row.field, "ours": row.ours, "reference": row.reference,
             "verdict": VERDICTS[row.verdict]}
            for row in rows
        ],
        checks=make_checks(rows),
        metrics={"chosen": CHOSEN, "rdma_rxe": origin},
        figure=draw(rows),
        caption=CAPTION.format(origin),
        tables=[summary_table(rows)],
    )  # fmt: skip


async def send(kind: str, program: str, run: Run) -> Sent:
    """Send one packet of this kind from the switch."""
    is_addition = "FETCH" in kind
    session: list[tuple[str, Any]] = [("ack_every", 1)]
    if "IMMEDIATE" in kind:
        session.append(("immediate_every", 1))
    collection = Collection(
        16, Content.COUNTERS if is_addition else Content.FLOWS,
        Transport.UC if kind.startswith("UC") else Transport.RC, tuple(session),
    )  # fmt: skip
    packet = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:03") / IP(
        src="10.0.0.1", dst="10.0.0.3"
    ) / UDP(sport=4000, dport=5000)  # fmt: skip
    name = kind.lower().replace(" ", "-")
    async with reporting(run, name, collection, RATE_BPS, program) as running:
        net = running.net
        if is_addition:
            flow = RecordedFlow("10.0.0.0/8", "0.0.0.0/0", what=RecordAction.PACKET, cell=CELL)
            await running.switch.write([+flow.entry()])
        at_ns = run.clock.now_ns() + SETTLE_NS
        net.send_frames("h1", [at_ns], [bytes(packet)])
        await run.clock.sleep_until(at_ns + SETTLE_NS)
        mac = net.host("h2").MAC()
    sent = pcap.read(net.capture("s1", "s2", "out"), 256)
    return Sent(kind, sent.bytes[0, : sent.length[0]].tobytes(), running.session, mac)


def compare(sent: Sent, reference: Mapping[str, Any]) -> list[Row]:
    """Return a row for each field that at least one of the packets has."""
    ours, given = fields(sent.frame), sent.given()
    rows = []
    for field in {**reference, **ours}:
        value, real = ours.get(field), reference.get(field)
        expected = given.get(field, real)
        if field in CHOSEN:
            verdict = FREE if value is not None and real is not None else WRONG
        elif value != expected or real is None:
            verdict = WRONG
        else:
            verdict = OF_SESSION if field in given else SAME
        rows.append(Row(sent.kind, field, value, real, expected, verdict))
    return rows


def make_checks(rows: Sequence[Row]) -> list[Check]:
    """Check each field of each kind of packet."""
    checks = []
    for kind in KINDS:
        of_kind = [row for row in rows if row.kind == kind]
        wrong = [row for row in of_kind if row.verdict == WRONG]
        details = "".join(f"; {row.field} {row.ours}, expected {row.expected}" for row in wrong)
        checks.append(Check(f"{kind}: wrong fields of {len(of_kind)}{details}", len(wrong), 0))
    return checks


def summary_table(rows: Sequence[Row]) -> Table:
    """Return a table of all fields of a WRITE, and of the fields that only other kinds have."""
    shown: dict[str, Row] = {}
    for row in rows:
        shown.setdefault(row.field, row)
    return table(
        "Header fields", ("field", "in", "rdma_rxe", "switch", ""),
        [(row.field, row.kind, row.reference, row.ours,
          CHOSEN.get(row.field, VERDICTS[row.verdict])) for row in shown.values()],
    )  # fmt: skip


def draw(rows: Sequence[Row]) -> Figure:
    """Draw a square for each field of each kind."""
    names = list(dict.fromkeys(row.field for row in rows))
    verdicts = np.full((len(names), len(KINDS)), np.nan)
    for row in rows:
        verdicts[names.index(row.field), KINDS.index(row.kind)] = row.verdict
    figure, (axes,) = plots.figure(height_in=6.0)
    colours = [plots.COLOURS[n] for n in (2, 0, 1, 3)]
    axes.imshow(verdicts, cmap=ListedColormap(colours), vmin=0, vmax=3, aspect="auto")
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xticks(range(len(KINDS)), [kind.replace(" ", "\n") for kind in KINDS], fontsize=6)
    axes.grid(visible=False)
    seen = sorted({row.verdict for row in rows})
    plots.legend(axes, 2, [Patch(color=colours[n], label=VERDICTS[n]) for n in seen])
    return figure


CAPTION = (
    "Header fields of RoCE packets of a P4 switch, compared with Linux's RoCE stack (rdma_rxe, {}) "
    "for the same operations. Blank: the packet has no such field."
)


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
