"""The link component: exact times in ns, random numbers with the right distribution, accounting."""

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import packets
import pytest
from packets import Packet

from minip4.native.build import Generated, shared_object
from minip4.wire import C_FOLDER
from minip4.wire.shared import LinkConfig, LinkCounters

SECOND = 10**9


DELIVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Packet), ctypes.c_uint64)
DROP = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32
)


def load() -> ctypes.CDLL:
    sources = [C_FOLDER / f"{name}.c" for name in ("memory", "packet", "link")]
    with shared_object(sources, [Generated(packets.CHECKS)], include=[C_FOLDER]) as path:
        library = ctypes.CDLL(str(path))
    packets.declare(library)
    library.link_create.argtypes = [
        ctypes.POINTER(LinkConfig), ctypes.c_void_p, DELIVER, DROP, ctypes.c_void_p,
    ]  # fmt: skip
    library.link_create.restype = ctypes.c_void_p
    library.link_destroy.argtypes = [ctypes.c_void_p]
    library.link_configure.argtypes = [ctypes.c_void_p, ctypes.POINTER(LinkConfig)]
    library.link_free_at.argtypes = [ctypes.c_void_p]
    library.link_free_at.restype = ctypes.c_uint64
    library.link_send.argtypes = [ctypes.c_void_p, ctypes.POINTER(Packet), ctypes.c_uint64]
    library.link_advance.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.link_advance.restype = ctypes.c_uint64
    library.link_counters.argtypes = [ctypes.c_void_p]
    library.link_counters.restype = ctypes.POINTER(LinkCounters)
    return library


@dataclass
class Link:
    """A link, and its output: (frame number, time) of each delivered and of each lost frame."""

    library: ctypes.CDLL
    config: LinkConfig
    delivered: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pool = self.library.packet_pool_create(0)
        self.on_deliver = DELIVER(self._deliver)
        self.on_drop = DROP(lambda _, now, frame, length: self.lost.append((frame[0], now)))
        self.handle = self.library.link_create(
            self.config, self.pool, self.on_deliver, self.on_drop, None
        )

    def _deliver(self, _: int, packet: "ctypes._Pointer[Packet]", now_ns: int) -> None:
        number = int.from_bytes(ctypes.string_at(packet.contents.data, 4), "little")
        self.delivered.append((number, now_ns))
        self.library.packet_give(self.pool, packet)

    def send(self, number: int, now_ns: int, length: int = 64) -> None:
        packet = self.library.packet_take(self.pool)
        ctypes.memmove(packet.contents.data, number.to_bytes(4, "little"), 4)
        packet.contents.length = length
        self.library.link_send(self.handle, packet, now_ns)

    def advance(self, now_ns: int) -> int:
        return int(self.library.link_advance(self.handle, now_ns))

    def counters(self) -> LinkCounters:
        return self.library.link_counters(self.handle).contents

    def close(self) -> None:
        self.library.link_destroy(self.handle)
        self.library.packet_pool_destroy(self.pool)


class Links:
    """Factory of links. At the end of the test, all links are closed."""

    def __init__(self) -> None:
        self.library = load()
        self.made: list[Link] = []

    def __call__(self, **config: float) -> Link:
        self.made.append(Link(self.library, LinkConfig(**config)))
        return self.made[-1]


@pytest.fixture
def make_link() -> Iterator[Links]:
    links = Links()
    yield links
    for link in links.made:
        link.close()


def lost_frames(link: Link, frames: int) -> list[int]:
    for number in range(frames):
        link.send(number, number * 1000)
        link.advance(number * 1000)
    return [number for number, _ in link.lost]


@pytest.mark.parametrize("delay_ns", [0, 1, 999, 20_000_000])
def test_delay_is_exact(make_link: Links, delay_ns: int) -> None:
    link = make_link(delay_ns=delay_ns)
    sent = [0, 7, 7, 123_456_789]
    for number, time in enumerate(sent):
        link.send(number, time)
    assert link.advance(delay_ns - 1 if delay_ns else 0) == (delay_ns if delay_ns else 7)
    assert link.advance(SECOND) == 2**64 - 1
    assert link.delivered == [(number, time + delay_ns) for number, time in enumerate(sent)]


@pytest.mark.parametrize(
    ("rate_bps", "length"), [(3_000_000, 64), (10**9, 1500), (7, 9000), (10**11, 64)]
)
def test_rate_is_exact_over_many_frames(make_link: Links, rate_bps: int, length: int) -> None:
    link = make_link(rate_bps=rate_bps, delay_ns=5)
    frames, bits = 1000, length * 8
    for number in range(frames):
        link.send(number, link.library.link_free_at(link.handle), length)
    link.advance(2**63)
    ideal = [number * bits * SECOND // rate_bps + 5 for number in range(1, frames + 1)]
    assert [time for _, time in link.delivered] == ideal


def test_an_idle_wire_starts_at_once(make_link: Links) -> None:
    link = make_link(rate_bps=3)  # 64 bytes take 170 2/3 s
    link.send(0, 0)
    link.send(1, 1000 * SECOND)
    link.advance(2**63)
    assert [time for _, time in link.delivered] == [170_666_666_666, 1_170_666_666_666]


def test_same_seed_same_frames_lost(make_link: Links) -> None:
    first, second = (lost_frames(make_link(loss=0.1, seed=42), 5000) for _ in range(2))
    assert first == second
    assert lost_frames(make_link(loss=0.1, seed=43), 5000) != first
    rough = make_link(loss=0.1, seed=42, delay_ns=50, jitter_ns=40, reorder=0.5, reorder_ns=5000,
                      rate_bps=10**10)  # fmt: skip
    assert lost_frames(rough, 5000) == first


@pytest.mark.parametrize("loss", [0.0, 0.001, 0.01, 0.1, 0.5, 1.0])
def test_loss_follows_the_binomial_law(make_link: Links, loss: float) -> None:
    frames = 50_000
    lost = lost_frames(make_link(loss=loss, seed=7), frames)
    assert abs(len(lost) - frames * loss) <= 4 * math.sqrt(frames * loss * (1 - loss))
    pairs = sum(b - a == 1 for a, b in pairwise(lost))
    variance = frames * loss**2 * (1 - loss**2)  # consecutive losses are independent
    assert abs(pairs - (frames - 1) * loss**2) <= 6 * math.sqrt(variance)


def test_losses_grow_with_probability(make_link: Links) -> None:
    """A link with the same seed and a higher loss loses the same frames, and additional ones.

    Therefore runs with different losses can be compared.
    """
    few, many = (set(lost_frames(make_link(loss=loss, seed=3), 5000)) for loss in (0.01, 0.05))
    assert few < many


def test_books_balance_at_every_instant(make_link: Links) -> None:
    link = make_link(loss=0.3, seed=1, delay_ns=3500, jitter_ns=1000, reorder=0.2, reorder_ns=900)
    for number in range(500):
        link.send(number, number * 1000, 64 + number)
        link.advance(number * 1000)
        counters = link.counters()
        in_flight = counters.sent_packets - counters.delivered_packets - counters.lost_packets
        assert counters.sent_packets == number + 1
        assert 0 <= in_flight <= 7
    link.advance(SECOND)
    counters = link.counters()
    assert counters.delivered_packets == len(link.delivered) == 500 - len(link.lost)
    assert counters.lost_bytes == sum(64 + number for number, _ in link.lost)
    assert counters.delivered_bytes == counters.sent_bytes - counters.lost_bytes


def test_lost_frames_are_reported_when_sent(make_link: Links) -> None:
    link = make_link(loss=1.0, delay_ns=10, rate_bps=512 * 10**6)
    link.send(9, 77)
    assert link.lost == [(9, 77)]
    # a lost frame takes transmission time, too
    assert link.library.link_free_at(link.handle) == 1077


def test_jitter_keeps_the_order(make_link: Links) -> None:
    link = make_link(delay_ns=1000, jitter_ns=400, seed=5)
    for number in range(2000):
        link.send(number, number * 100)
        link.advance(number * 100)
    link.advance(SECOND)
    delays = [time - number * 100 for number, time in link.delivered]
    assert [number for number, _ in link.delivered] == list(range(2000))
    assert min(delays) >= 600
    assert max(delays) <= 1400
    alone = make_link(delay_ns=1000, jitter_ns=400, seed=5)
    for number in range(2000):
        # The frames are far apart, so that none waits for an earlier one. Then delays are uniform.
        alone.send(number, number * 1000)
        alone.advance(number * 1000)
    alone.advance(SECOND)
    delays = [time - number * 1000 for number, time in alone.delivered]
    assert sum(delays) / len(delays) == pytest.approx(1000, abs=4 * 400 / math.sqrt(3 * 2000))
    assert min(delays) < 610
    assert max(delays) > 1390


@pytest.mark.parametrize(("delay_ns", "expected"), [(2, {1, 2, 3}), (0, {0, 1})])
def test_jitter_goes_from_end_to_end_of_its_range_and_never_before_sending(
    make_link: Links, delay_ns: int, expected: set[int]
) -> None:
    link = make_link(delay_ns=delay_ns, jitter_ns=1, seed=5)
    for number in range(200):
        link.send(number, number * 1000)
        link.advance(number * 1000 + 999)
    assert {time - number * 1000 for number, time in link.delivered} == expected


def test_a_frame_held_back_goes_after_those_due_at_its_time(make_link: Links) -> None:
    link = make_link(delay_ns=500, reorder=1.0, reorder_ns=2500)
    link.send(0, 0)
    link.library.link_configure(link.handle, LinkConfig(delay_ns=500))
    link.send(1, 2500)
    link.advance(SECOND)
    assert link.delivered == [(1, 3000), (0, 3000)]


def test_reordered_frames_are_overtaken(make_link: Links) -> None:
    link = make_link(delay_ns=500, reorder=0.1, reorder_ns=2500, seed=11)
    frames = 5000
    for number in range(frames):
        link.send(number, number * 1000)
        link.advance(number * 1000)
    link.advance(SECOND)
    times = [time for _, time in link.delivered]
    assert times == sorted(times)
    delays = {time - number * 1000 for number, time in link.delivered}
    assert delays == {500, 3000}
    held_back = sum(time - number * 1000 == 3000 for number, time in link.delivered)
    assert held_back == pytest.approx(frames * 0.1, abs=4 * math.sqrt(frames * 0.09))
    assert sorted(number for number, _ in link.delivered) == list(range(frames))


def test_configuration_holds_for_later_frames(make_link: Links) -> None:
    link = make_link(delay_ns=1000)
    link.send(0, 0)
    link.library.link_configure(link.handle, LinkConfig(delay_ns=10))
    link.send(1, 0)  # this frame does not overtake frame 0, because the link does not reorder
    link.send(2, 5000)
    link.advance(SECOND)
    assert link.delivered == [(0, 1000), (1, 1000), (2, 5010)]


def test_a_new_configuration_throws_the_dice_on_and_not_from_their_start(make_link: Links) -> None:
    left_alone, changed = (make_link(loss=0.5, seed=42) for _ in range(2))
    for number in range(100):
        if number == 50:
            changed.library.link_configure(
                changed.handle, LinkConfig(loss=0.5, seed=42, delay_ns=9)
            )
        for link in (left_alone, changed):
            link.send(number, 0)
    assert changed.lost == left_alone.lost


def test_a_new_rate_drops_the_rounding_remainder(make_link: Links) -> None:
    link = make_link(rate_bps=3)
    link.send(0, 0)  # after 64 bytes, 2/3 ns remain, stored as 2
    link.library.link_configure(link.handle, LinkConfig(rate_bps=512 * 10**9 + 2))
    link.send(1, 170_666_666_666)  # almost 1 ns: with the remainder, it would be one
    link.advance(2**63)
    assert link.delivered == [(0, 170_666_666_666), (1, 170_666_666_666)]
