"""Bits by which hosts expose delay and loss to the network (RFC 9506), for one endpoint.

The bits are in the first byte of QUIC's short header (RFC 9000 section 17.3.1):

    0x80  0x40  0x20  0x10   0x08    0x04  0x03
      0     1   spin  first  second  key   length of the packet number

RFC 9506 section 6.1 defines the meaning of the first and the second bit, see Scheme.
"""

from enum import IntEnum

SHORT_HEADER, HEADER_MASK = 0x40, 0xC0  # header form 0, fixed bit 1
SPIN, FIRST, SECOND = 0x20, 0x10, 0x08

BLOCK = 64  # length N of a square block, the default of RFC 9506
THRESHOLD = 8  # marking block threshold X; RFC 9506 requires less than N / 2
T_MAX_NS = 1_000_000_000  # the client regenerates the delay sample after this time
MAX_REFLECTION_NS = 1_000_000  # a delay sample that waits longer is not reflected
MAX_TOKENS = 1  # the most conservative cap of the generation tokens


class Scheme(IntEnum):
    """Assignment of the bits; the numbers are those of p4src/explicit/watch.p4."""

    SDT = 1  # spin, delay, round-trip loss: scheme 1 of RFC 9506
    SQL = 2  # spin, square, loss event: scheme 2A
    SQR = 3  # spin, square, reflection square: scheme 2B


class SpinBit:
    """Spin bit S: the client inverts it once per round trip, and the server echoes it."""

    def __init__(self, *, is_client: bool) -> None:
        self._is_client = is_client
        self.value = False

    def receive(self, value: bool, *, is_newest: bool) -> bool:
        """Return whether the received packet changed the value."""
        before = self.value
        if is_newest:
            self.value = value != self._is_client
        return self.value != before


class DelayBit:
    """Delay bit D: one marked packet, the delay sample, bounces between the endpoints."""

    def __init__(self, *, is_client: bool) -> None:
        self._is_client = is_client
        self._arrived_ns: int | None = None  # arrival of a sample that is not yet reflected
        self._sent_ns: int | None = None  # time at which the client sent the last sample

    def receive(self, value: bool, now_ns: int) -> None:
        """Note the arrival of a delay sample."""
        if value:
            self._arrived_ns = now_ns

    def send(self, now_ns: int) -> bool:
        """Return the bit of the next packet."""
        arrived_ns, self._arrived_ns = self._arrived_ns, None
        marks = arrived_ns is not None and now_ns - arrived_ns <= MAX_REFLECTION_NS
        if self._is_client:
            marks |= self._sent_ns is None or now_ns - self._sent_ns > T_MAX_NS
            if marks:
                self._sent_ns = now_ns
        return marks


class SquareBit:
    """Square bit Q: inverted after each block of BLOCK packets."""

    def __init__(self) -> None:
        self._sent = 0

    def send(self) -> bool:
        """Return the bit of the next packet."""
        self._sent += 1
        return (self._sent - 1) // BLOCK % 2 == 1


class SquareBlocks:
    """Sizes of the blocks of a received square wave.

    After an edge, the previous block stays open for `threshold` packets, so late packets are still
    counted in it.
    """

    def __init__(self, threshold: int = THRESHOLD) -> None:
        self._threshold = threshold
        self._value: bool | None = None
        self._current = self._since = 0
        self._open: int | None = None  # packets in the previous block, as long as it is open

    def receive(self, value: bool) -> int | None:
        """Count a packet. Return the size of the block that it completes, if any."""
        if self._value is None:
            self._value = value
        self._since += 1
        if value == self._value:
            self._current += 1
        elif self._open is not None:
            self._open += 1
        else:
            self._open, self._current, self._value, self._since = self._current, 1, value, 0
        if self._open is None or self._since < self._threshold:
            return None
        size, self._open = self._open, None
        return size


class ReflectionBit:
    """Reflection square bit R: its blocks have the sizes of the received blocks of Q."""

    def __init__(self) -> None:
        self._received = SquareBlocks()
        self._value = False
        self._size: int | None = None  # size of the current block; None before the first toggle
        self._sent = 0  # packets of the current block
        self._last = 0  # size of the last received block
        self._further: list[int] = []  # blocks that were received during the current block
        self._rounding = 0.0  # error of the rounded sizes, carried to the next block

    def receive(self, square: bool) -> None:
        """Count a packet with this square bit."""
        size = self._received.receive(square)
        if size is None:
            return
        self._last = size
        if self._size is None:
            self._begin()
        else:
            self._further.append(size)
            self._size = round(self._exact_size())

    def send(self) -> bool:
        """Return the bit of the next packet."""
        if self._size is not None and self._sent >= self._size:
            if self._further:
                self._rounding = self._exact_size() - self._size
            self._begin()
        self._sent += 1
        return self._value

    def _exact_size(self) -> float:
        return sum(self._further) / len(self._further) + self._rounding

    def _begin(self) -> None:
        self._value = not self._value
        self._size, self._sent, self._further = self._last, 0, []


class LossBit:
    """Loss event bit L: set in one packet for each packet that was detected as lost."""

    def __init__(self) -> None:
        self.unreported = 0

    def send(self) -> bool:
        """Return the bit of the next packet."""
        marks = self.unreported > 0
        self.unreported -= marks
        return marks


class ServerTripBit:
    """Round-trip loss bit T of a server: reflects each marked packet in the next packet."""

    def __init__(self) -> None:
        self._to_reflect = 0

    def receive(self, value: bool, *, is_edge: bool) -> None:
        """Count a received packet."""
        del is_edge
        self._to_reflect += value

    def send(self) -> bool:
        """Return the bit of the next packet."""
        marks = self._to_reflect > 0
        self._to_reflect -= marks
        return marks


class _Phase(IntEnum):
    GENERATION = 0
    PAUSE = 1
    REFLECTION = 2
    SECOND_PAUSE = 3


class ClientTripBit:
    """Round-trip loss bit T of a client: generates a train of marked packets, and reflects it.

    Generation lasts two spin periods. A pause lasts until a spin period without marked packets has
    arrived.
    """

    def __init__(self) -> None:
        self._phase = _Phase.GENERATION
        self._periods = 0  # complete spin periods in this phase
        self._had_mark = False  # whether a marked packet arrived in the current spin period
        self._tokens = 0
        self._to_reflect = 0

    def receive(self, value: bool, *, is_edge: bool) -> None:
        """Count a received packet; `is_edge` begins a spin period with this packet."""
        if is_edge:
            self._end_period()
        self._had_mark |= value
        self._tokens = min(self._tokens + 1, MAX_TOKENS)
        self._to_reflect += value and self._counts

    @property
    def _counts(self) -> bool:
        """True if arriving marked packets will be reflected."""
        if self._phase == _Phase.PAUSE:
            return True
        first = self._periods == 0
        return self._phase == (_Phase.REFLECTION if first else _Phase.GENERATION)

    def _end_period(self) -> None:
        self._periods += 1
        pauses = self._phase in (_Phase.PAUSE, _Phase.SECOND_PAUSE)
        if (pauses and not self._had_mark) or (
            self._phase == _Phase.GENERATION and self._periods == 2
        ):
            self._next_phase()
        self._had_mark = False

    def send(self) -> bool:
        """Return the bit of the next packet."""
        if self._phase == _Phase.REFLECTION and self._periods and not self._to_reflect:
            self._next_phase()
            self._had_mark = True  # the current period does not count as one without marks
        generates = self._phase == _Phase.GENERATION
        reflects = self._phase == _Phase.REFLECTION and self._to_reflect > 0
        marks = (generates or reflects) and self._tokens > 0
        self._tokens -= marks
        self._to_reflect -= marks and reflects
        return marks

    def _next_phase(self) -> None:
        self._phase = _Phase((self._phase + 1) % len(_Phase))
        self._periods = 0


class ExplicitBits:
    """Bits of one endpoint of a connection."""

    def __init__(self, scheme: Scheme, *, is_client: bool) -> None:
        self.scheme = scheme
        self.loss = LossBit()
        self._spin = SpinBit(is_client=is_client)
        self._delay = DelayBit(is_client=is_client)
        self._trip = ClientTripBit() if is_client else ServerTripBit()
        self._square = SquareBit()
        self._reflection = ReflectionBit()

    def receive(self, first_byte: int, now_ns: int, *, is_newest: bool) -> None:
        """Process a received packet.

        `is_newest` tells whether no packet with a higher number has arrived before.
        """
        is_edge = self._spin.receive(bool(first_byte & SPIN), is_newest=is_newest)
        first, second = bool(first_byte & FIRST), bool(first_byte & SECOND)
        if self.scheme == Scheme.SDT:
            self._delay.receive(first, now_ns)
            self._trip.receive(second, is_edge=is_edge)
        elif self.scheme == Scheme.SQR:
            self._reflection.receive(first)

    def send(self, now_ns: int) -> int:
        """Return the bits of the next packet, for the first byte."""
        if self.scheme == Scheme.SDT:
            first, second = self._delay.send(now_ns), self._trip.send()
        elif self.scheme == Scheme.SQL:
            first, second = self._square.send(), self.loss.send()
        else:
            first, second = self._square.send(), self._reflection.send()
        return SPIN * self._spin.value | FIRST * first | SECOND * second
