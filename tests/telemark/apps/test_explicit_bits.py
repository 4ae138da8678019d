"""Bits of RFC 9506 that an endpoint sets, for chosen packets from its peer."""

import random
import shutil
import subprocess
from itertools import pairwise

import pytest

from telemark.apps.explicit_bits import (
    BLOCK,
    FIRST,
    MAX_REFLECTION_NS,
    SECOND,
    SPIN,
    T_MAX_NS,
    THRESHOLD,
    ClientTripBit,
    DelayBit,
    ExplicitBits,
    LossBit,
    ReflectionBit,
    Scheme,
    ServerTripBit,
    SpinBit,
    SquareBit,
    SquareBlocks,
)


@pytest.mark.parametrize(("is_client", "expected"), [(True, [0, 1, 0]), (False, [0, 0, 1])])
def test_client_inverts_the_spin_bit_and_server_echoes_it(
    is_client: bool, expected: list[int]
) -> None:
    spin = SpinBit(is_client=is_client)
    values = [spin.value]
    for received in (False, True):
        spin.receive(received, is_newest=True)
        values.append(spin.value)
    assert values == [bool(value) for value in expected]


def test_an_old_packet_does_not_change_the_spin_bit() -> None:
    spin = SpinBit(is_client=False)
    assert not spin.receive(True, is_newest=False)
    assert not spin.value
    assert spin.receive(True, is_newest=True)


def test_client_sends_a_delay_sample_first_and_again_after_t_max() -> None:
    delay = DelayBit(is_client=True)
    times_ns = (5, 6, 5 + T_MAX_NS, 6 + T_MAX_NS, 7 + T_MAX_NS)
    assert [delay.send(time_ns) for time_ns in times_ns] == [True, False, False, True, False]


@pytest.mark.parametrize("is_client", [True, False])
@pytest.mark.parametrize(("wait_ns", "expected"), [(MAX_REFLECTION_NS, True),
                                                   (MAX_REFLECTION_NS + 1, False)])  # fmt: skip
def test_a_delay_sample_is_reflected_once_if_it_does_not_wait(
    is_client: bool, wait_ns: int, expected: bool
) -> None:
    delay = DelayBit(is_client=is_client)
    delay.send(0)
    delay.receive(True, 100)
    assert [delay.send(100 + wait_ns), delay.send(100 + wait_ns)] == [expected, False]


def test_a_reflection_postpones_the_next_generation() -> None:
    delay = DelayBit(is_client=True)
    delay.send(0)
    delay.receive(True, 500)
    assert delay.send(500)
    assert not delay.send(1 + T_MAX_NS)
    assert delay.send(501 + T_MAX_NS)


def test_square_bit_has_blocks_of_n_packets() -> None:
    square = SquareBit()
    sent = [square.send() for _ in range(3 * BLOCK)]
    assert sent == [False] * BLOCK + [True] * BLOCK + [False] * BLOCK


def test_received_blocks_include_packets_late_by_the_threshold() -> None:
    blocks = SquareBlocks(3)
    late = [False] * 9 + [True] * 3 + [False] + [True] * 6 + [False] * 4
    assert [size for value in late if (size := blocks.receive(value)) is not None] == [10, 9]


def reflected(sizes: list[int], per_packet: int = 1) -> list[int]:
    """Return the sizes of complete blocks of R, except the first one.

    Blocks of Q with these sizes are received, and `per_packet` packets are sent per received one.
    """
    bit, sent = ReflectionBit(), []
    for number, size in enumerate(sizes):
        for _ in range(size):
            bit.receive(number % 2 == 1)
            sent += [bit.send() for _ in range(per_packet)]
    edges = [at for at in range(1, len(sent)) if sent[at] != sent[at - 1]]
    return [after - before for before, after in pairwise(edges)]


def test_reflection_bit_repeats_the_sizes_of_received_blocks() -> None:
    assert reflected([61] * 6) == [61] * 4


def test_reflection_bit_toggles_first_when_a_block_is_complete() -> None:
    bit, sent = ReflectionBit(), []
    for number in range(2 * BLOCK):
        bit.receive(number >= BLOCK)
        sent.append(bit.send())
    assert sent.index(True) == BLOCK + THRESHOLD


def test_reflection_bit_repeats_a_block_as_long_as_no_other_is_complete() -> None:
    assert reflected([60, 64], per_packet=4)[:2] == [60, 60]


def test_reflection_bit_averages_blocks_that_arrive_during_a_block() -> None:
    bit, sent = ReflectionBit(), []
    sizes = [64, 60, 63, 64, 64, 64, 64, 64, 64]
    for number, size in enumerate(sizes):
        for packet in range(size):
            bit.receive(number % 2 == 1)
            if packet % 3 == 0:
                sent.append(bit.send())
    edges = [at for at in range(1, len(sent)) if sent[at] != sent[at - 1]]
    # While the block of 64 is sent, blocks of 60, 63 and 64 arrive; their mean is 62.33.
    assert edges[1] - edges[0] == 62


def test_loss_bit_marks_one_packet_per_loss() -> None:
    loss = LossBit()
    loss.unreported += 2
    assert [loss.send() for _ in range(4)] == [True, True, False, False]
    assert loss.unreported == 0


def test_server_reflects_as_many_marks_as_it_received() -> None:
    trip = ServerTripBit()
    for value in (True, False, True):
        trip.receive(value, is_edge=False)
    assert [trip.send() for _ in range(3)] == [True, True, False]


class Loop:
    """A client and a server without delay. A spin period has `packets` packets in each direction.

    `lost` are numbers of packets of the client, from 0, that the server does not receive.
    """

    def __init__(self, packets: int, lost: frozenset[int] = frozenset()) -> None:
        self._client, self._server = ClientTripBit(), ServerTripBit()
        self._packets = packets
        self._lost = lost
        self._sent = 0
        self._returning: list[bool] = []

    def period(self) -> int:
        """Run a spin period; return the number of marks that the client sent in it."""
        marks = 0
        arriving, self._returning = self._returning, []
        for at in range(self._packets):
            if arriving:
                self._client.receive(arriving[at], is_edge=at == 0)
            mark = self._client.send()
            marks += mark
            if self._sent not in self._lost:
                self._server.receive(mark, is_edge=False)
            self._sent += 1
            self._returning.append(self._server.send())
        return marks


def test_client_sends_two_equal_trains_with_pauses_without_loss() -> None:
    loop = Loop(10)
    marks = [loop.period() for _ in range(30)]
    trains: list[int] = []
    for before, now in zip([0, *marks], marks, strict=False):
        if now and not before:
            trains.append(0)
        if now:
            trains[-1] += now
    assert len(trains) >= 4
    assert trains[0] == trains[1] > 0
    assert trains[2] == trains[3] > 0


def test_second_train_lacks_the_marks_that_were_lost() -> None:
    loop = Loop(10, frozenset({13, 15}))
    marks = [loop.period() for _ in range(8)]
    other = Loop(10)
    complete = [other.period() for _ in range(8)]
    assert sum(complete) - sum(marks) == 2


@pytest.mark.parametrize("scheme", [*Scheme])
def test_schemes_place_their_bits_where_rfc_9506_does(scheme: Scheme) -> None:
    """In the first packet of a client, only D can be set. After N packets, Q is set."""
    bits = ExplicitBits(scheme, is_client=True)
    bits.loss.unreported = 1
    first = bits.send(0)
    assert first == {Scheme.SDT: FIRST, Scheme.SQL: SECOND, Scheme.SQR: 0}[scheme]
    later = [bits.send(0) for _ in range(BLOCK)][-1]
    assert later == (0 if scheme == Scheme.SDT else FIRST)
    bits.receive(0, 0, is_newest=True)
    assert bits.send(0) & SPIN


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_has_spin_square_and_loss_bit_at_the_same_places() -> None:
    done = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True)
    fields = [line.split("\t") for line in done.stdout.splitlines()]
    masks = {field[2]: int(field[6], 0) for field in fields if field[2] in
             ("quic.spin_bit", "quic.q_bit", "quic.l_bit")}  # fmt: skip
    assert masks == {"quic.spin_bit": SPIN, "quic.q_bit": FIRST, "quic.l_bit": SECOND}


def test_any_received_bits_are_accepted() -> None:
    rng = random.Random(1)
    for scheme in Scheme:
        for is_client in (True, False):
            bits = ExplicitBits(scheme, is_client=is_client)
            for time_ns in range(2000):
                bits.receive(rng.randrange(256), time_ns, is_newest=rng.random() < 0.9)
                assert bits.send(time_ns) & ~(SPIN | FIRST | SECOND) == 0
