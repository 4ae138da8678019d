"""Digests: lists of samples for the primary controller, which acknowledges each list.

P4Runtime spec 9.6 and 16.3.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from finsy.proto import p4i, p4r

from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.rates import DELETE, INSERT, Operation, Undo
from minip4.runtime.p4info import p4data
from minip4.runtime.p4info.schema import Schema
from minip4.runtime.status import Code, StatusError, invalid, not_found

MAX_LIST_SIZE = 1024  # maximum number of samples per list, if the client sets no limit

_Sample = tuple[int, ...]


@dataclass
class _Stream:
    """One digest configured by a client."""

    entry: p4r.DigestEntry
    waiting: list[_Sample] = field(default_factory=list)
    since_ns: int = 0  # arrival time of the first sample in `waiting`
    # map from sample to the time (ns) at which its acknowledgement timeout ends
    unacknowledged: dict[_Sample, int] = field(default_factory=dict)
    sent: dict[int, tuple[int, list[_Sample]]] = field(default_factory=dict)
    """For each list id: the time (ns) at which its acknowledgement timeout ends, and its samples.
    """
    next_list: int = 1


class Digests:
    """The digests of one pipeline.

    A sample that was sent but not acknowledged is not sent again within ack_timeout_ns. If
    ack_timeout_ns is 0, every sample is sent.
    """

    def __init__(self, schema: Schema, dataplane: Dataplane) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._streams: dict[str, _Stream] = {}

    @property
    def active(self) -> bool:
        return bool(self._streams)

    def prepare(self, kind: int, message: p4r.DigestEntry) -> Operation:
        """Check the configuration of a digest; return the operation."""
        digest = self._schema.digest(message.digest_id)
        name = digest.preamble.name
        what = f"digest {name}"
        # raises an error if a digest cannot have this type
        p4data.encode(digest.type_spec, self._schema, itertools.repeat(0))
        config = message.config
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            raise invalid(f"{what}: negative value in its config")
        return lambda: self._write(kind, what, name, message)

    def read(self, message: p4r.DigestEntry) -> Iterator[p4r.Entity]:
        """Yield the configuration of one digest; id 0 selects all digests."""
        wanted = message.digest_id
        if wanted:
            self._schema.digest(wanted)
        for stream in self._streams.values():
            if wanted in (0, stream.entry.digest_id):
                yield p4r.Entity(digest_entry=stream.entry)

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate this state in an empty pipeline."""
        for entity in self.read(p4r.DigestEntry()):
            yield p4r.Update(type=INSERT, entity=entity)

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """Forget the samples of an acknowledged list; equal samples may then be sent.

        Raises StatusError.
        """
        digest = self._schema.digest(message.digest_id)
        stream = self._streams.get(digest.preamble.name)
        if stream is None:
            raise not_found(f"digest {digest.preamble.name} is not configured")
        _, samples = stream.sent.pop(message.list_id, (0, ()))
        for sample in samples:
            stream.unacknowledged.pop(sample, None)

    def collect(self, send: Callable[[p4r.StreamMessageResponse], bool]) -> None:
        """Fetch digests from the engine and send the lists that are full or due."""
        now_ns = self._dataplane.clock()
        for sample in self._dataplane.digests():
            stream = self._streams.get(sample.name)
            if stream is not None:
                self._take(stream, tuple(sample.values), now_ns)
        for stream in self._streams.values():
            _expire(stream, now_ns)
            limit = stream.entry.config.max_list_size or MAX_LIST_SIZE
            while len(stream.waiting) >= limit:
                self._send(stream, limit, now_ns, send)
            if stream.waiting and now_ns >= stream.since_ns + stream.entry.config.max_timeout_ns:
                self._send(stream, limit, now_ns, send)

    def _take(self, stream: _Stream, sample: _Sample, now_ns: int) -> None:
        timeout_ns = stream.entry.config.ack_timeout_ns
        if timeout_ns:
            if stream.unacknowledged.get(sample, 0) > now_ns:
                return
            stream.unacknowledged[sample] = now_ns + timeout_ns
        if not stream.waiting:
            stream.since_ns = now_ns
        stream.waiting.append(sample)

    def _send(
        self,
        stream: _Stream,
        limit: int,
        now_ns: int,
        send: Callable[[p4r.StreamMessageResponse], bool],
    ) -> None:
        samples, stream.waiting = stream.waiting[:limit], stream.waiting[limit:]
        stream.since_ns = now_ns
        digest: p4i.Digest = self._schema.digest(stream.entry.digest_id)
        response = p4r.StreamMessageResponse()
        message = response.digest
        message.digest_id = stream.entry.digest_id
        message.list_id = stream.next_list
        message.timestamp = now_ns
        for sample in samples:
            message.data.append(p4data.encode(digest.type_spec, self._schema, iter(sample)))
        stream.next_list += 1
        if not send(response):
            for sample in samples:
                stream.unacknowledged.pop(sample, None)
        elif stream.entry.config.ack_timeout_ns:
            until_ns = now_ns + stream.entry.config.ack_timeout_ns
            stream.sent[message.list_id] = (until_ns, samples)

    def _write(self, kind: int, what: str, name: str, message: p4r.DigestEntry) -> Undo:
        old = self._streams.get(name)
        if kind == INSERT and old is not None:
            raise StatusError(Code.ALREADY_EXISTS, f"{what}: already configured")
        if kind != INSERT and old is None:
            raise not_found(f"{what}: not configured")
        if not self._streams:
            self._dataplane.digests()  # discard earlier digests
        if kind == DELETE:
            del self._streams[name]
        else:
            self._streams[name] = _Stream(message)

        def undo() -> None:
            if old is None:
                self._streams.pop(name, None)
            else:
                self._streams[name] = old

        return undo


def _expire(stream: _Stream, now_ns: int) -> None:
    """Forget lists whose acknowledgement timeout has passed, the oldest first."""
    for list_id, (until_ns, samples) in list(stream.sent.items()):
        if until_ns > now_ns:
            return
        del stream.sent[list_id]
        for sample in samples:
            if stream.unacknowledged.get(sample, 0) <= now_ns:
                stream.unacknowledged.pop(sample, None)
