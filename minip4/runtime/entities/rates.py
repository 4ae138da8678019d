"""Operations of updates, and conversion of meter rates and counts for the engine."""

from collections.abc import Callable

from finsy.proto import p4i, p4r

from minip4.engine.keys import ColourCounts, Rates
from minip4.runtime.status import invalid, unimplemented

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Undo = Callable[[], object]
Operation = Callable[[], Undo]
"""Performs one update and returns its undo function.

After a failed batch, the engine first undoes its own changes (Engine.batch()). Then the undo
function restores the data stored outside of the engine.
"""


def check_modify(what: str, kind: int) -> None:
    """Reject other kinds of updates than MODIFY."""
    if kind != MODIFY:
        raise invalid(f"{what}: it can only be modified")


def nothing() -> None:
    """Do nothing. This is the undo function of operations that change only the engine."""


def decode_rates(what: str, config: p4r.MeterConfig) -> Rates:
    """Check and decode the two rates and burst sizes of a meter config."""
    rates = (config.cir, config.cburst, config.pir, config.pburst)
    if min(rates) < 0:
        names = ", ".join(f"{k} {getattr(config, k)}" for k in ("cir", "cburst", "pir", "pburst"))
        raise invalid(f"{what}: negative rate or burst: {names}; expected 0 or more")
    if config.cir > config.pir:
        raise invalid(f"{what}: cir {config.cir} is above pir {config.pir}")
    if config.eburst:
        raise unimplemented(f"{what}: eburst (single-rate meters) is not supported")
    return rates


def encode_rates(rates: Rates) -> p4r.MeterConfig:
    return p4r.MeterConfig(cir=int(rates[0]), cburst=rates[1], pir=int(rates[2]), pburst=rates[3])


def decode_counts(what: str, data: p4r.MeterCounterData) -> ColourCounts:
    """Check and decode the counter data of a meter."""
    colours = (data.green, data.yellow, data.red)
    for colour in colours:
        check_count(what, colour)
    green, yellow, red = ((c.packet_count, c.byte_count) for c in colours)
    return green, yellow, red


def check_count(what: str, data: p4r.CounterData) -> None:
    """Reject negative packet or byte counts."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(
            f"{what}: negative count: {data.packet_count} packets, {data.byte_count} bytes; "
            "expected 0 or more"
        )


def encode_counts(counts: ColourCounts) -> p4r.MeterCounterData:
    green, yellow, red = (p4r.CounterData(packet_count=p, byte_count=b) for p, b in counts)
    return p4r.MeterCounterData(green=green, yellow=yellow, red=red)


def counter_data(spec: p4i.CounterSpec, packets: int, size: int) -> p4r.CounterData:
    """Return the counter data in the unit of the counter: packets, bytes, or both."""
    data = p4r.CounterData()
    if spec.unit != p4i.CounterSpec.BYTES:
        data.packet_count = packets
    if spec.unit != p4i.CounterSpec.PACKETS:
        data.byte_count = size
    return data
