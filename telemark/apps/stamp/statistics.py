"""Loss, one-way delay and round-trip delay of a path, from the record of a STAMP session."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemark.apps.stamp.sender import SessionRecord
from telemark.apps.stamp.tlvs import TlvType, read_direct_measurement
from telemark.errors import TestbedError


@dataclass(frozen=True)
class DelayStatistics:
    """Statistics of delays, in nanoseconds."""

    count: int
    minimum_ns: int
    mean_ns: float
    median_ns: float
    p99_ns: float
    maximum_ns: int
    deviation_ns: float  # standard deviation
    # mean difference of the delays of consecutive packets (RFC 3393), without sign
    jitter_ns: float


@dataclass(frozen=True)
class PathMeasurement:
    """Loss and delay of a path.

    Arrays have one element per test packet that was answered, ordered by sequence number. A loss
    is located if the reflector is stateful and a later reply arrived.
    """

    sent: int  # test packets
    answered: int
    duplicates: int  # number of replies to test packets that another reply had answered
    reordered: int  # number of replies that arrived after the reply to a later test packet
    lost_forward: int  # test packets lost between sender and reflector
    lost_backward: int  # replies lost between reflector and sender
    lost_unlocated: int  # test packets or replies lost at an unknown place
    sequence: NDArray[np.int64]
    sent_ns: NDArray[np.int64]  # send time of the test packet
    forward_ns: NDArray[np.int64]  # one-way delay of the test packet
    backward_ns: NDArray[np.int64]  # one-way delay of the reply
    round_trip_ns: NDArray[np.int64]  # without the time inside the reflector

    @property
    def lost(self) -> int:
        return self.sent - self.answered

    @property
    def loss_ratio(self) -> float:
        """Fraction of the test packets that were not answered; NaN if none was sent."""
        return self.lost / self.sent if self.sent else float("nan")


def measure_path(record: SessionRecord) -> PathMeasurement:
    """Compute loss and delay of a session."""
    arrived = record.replies
    _, first = np.unique(arrived["sequence"], return_index=True)
    replies = arrived[first]  # the first reply to each test packet, ordered by sequence number
    times = ("sent_ns", "reflector_received_ns", "reflector_sent_ns", "received_ns")
    t1, t2, t3, t4 = (replies[name] for name in times)
    in_order = np.maximum.accumulate(arrived["sequence"][np.sort(first)])
    forward, backward, unlocated = _locate_losses(record)
    return PathMeasurement(
        sent=len(record.sent_ns),
        answered=len(replies),
        duplicates=len(arrived) - len(replies),
        reordered=int((arrived["sequence"][np.sort(first)] < in_order).sum()),
        lost_forward=forward,
        lost_backward=backward,
        lost_unlocated=unlocated,
        sequence=replies["sequence"].astype(np.int64),
        sent_ns=t1.copy(),
        forward_ns=t2 - t1,
        backward_ns=t4 - t3,
        round_trip_ns=(t4 - t1) - (t3 - t2),
    )


def _locate_losses(record: SessionRecord) -> tuple[int, int, int]:
    """Return the numbers of losses forward, backward, and at an unknown place.

    A stateful reflector numbers the test packets that it receives. The highest of these numbers in
    the replies shows how many test packets had arrived by then. A number that no reply has belongs
    to a lost reply. The other unanswered test packets up to the last reply were lost on the way to
    the reflector. Losses after the last reply cannot be located.
    """
    answered = len(np.unique(record.replies["sequence"]))
    lost = len(record.sent_ns) - answered
    if not (record.stateful_reflector and answered):
        return 0, 0, lost
    sent = int(record.replies["sequence"].max()) + 1
    numbers = np.unique(record.replies["reflector_sequence"])
    # The limits matter only if packets overtook the last answered one or were duplicated.
    backward = min(int(numbers[-1]) + 1 - len(numbers), lost)
    forward = max(sent - answered - backward, 0)
    return forward, backward, lost - forward - backward


def measure_direct_loss(record: SessionRecord) -> tuple[int, int]:
    """Return the losses forward and backward up to the last reply, from packet counters.

    The session needs the Direct Measurement TLV and a stateful reflector. Raises TestbedError if
    no reply contains the counters.
    """
    found = np.array([
        (*read_direct_measurement(tlv.value), reply["reflector_sequence"])
        for reply, tlvs in zip(record.replies, record.tlvs, strict=False)
        for tlv in tlvs
        if tlv.type == TlvType.DIRECT_MEASUREMENT and not tlv.flags
    ])  # fmt: skip
    if not len(found):
        raise TestbedError(
            "direct loss: no reply with counters; add direct_measurement() to the sender's tlvs"
        )
    # the maxima, because the last reply to arrive need not be the last one sent
    transmitted, received, replied, number = (int(each) for each in found.max(axis=0))
    arrived = np.unique(record.replies["reflector_sequence"])
    return transmitted - received, replied - int((arrived <= number).sum())


def summarize(delays_ns: NDArray[np.int64]) -> DelayStatistics | None:
    """Return the statistics of delays in the order of their packets; None without delays."""
    if not len(delays_ns):
        return None
    return DelayStatistics(
        count=len(delays_ns),
        minimum_ns=int(delays_ns.min()),
        mean_ns=float(delays_ns.mean()),
        median_ns=float(np.median(delays_ns)),
        p99_ns=float(np.percentile(delays_ns, 99)),
        maximum_ns=int(delays_ns.max()),
        deviation_ns=float(delays_ns.std()),
        jitter_ns=float(np.abs(np.diff(delays_ns)).mean()) if len(delays_ns) > 1 else 0.0,
    )
