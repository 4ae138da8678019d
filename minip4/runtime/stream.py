"""What a switch and its controllers tell each other on streams: packets, digests, idle entries."""

import asyncio
import itertools

from finsy.proto import p4r

from minip4.engine.driver import Driver
from minip4.runtime.arbitration import Client
from minip4.runtime.device import Device
from minip4.runtime.status import Code, StatusError, denied, unimplemented

POLL_S = 0.01  # how often the engine is asked for digests, while a client wants them
IDLE_TURNS = 25  # idle entries are looked for once in so many polls


class Messages:
    """Carries frames, digests and notifications between the engine and the primary controllers."""

    def __init__(self, device: Device, driver: Driver, *, cpu_port: bool) -> None:
        self._device = device
        self._driver = driver
        self._cpu_port = cpu_port
        self._polling: asyncio.Task[None] | None = None
        self.packet_in = 0
        self.packet_in_dropped = 0
        self.packet_out = 0
        self.digest_lists = 0
        self.digest_lists_dropped = 0

    def counters(self) -> dict[str, int]:
        """What was carried, and what no controller took."""
        return {
            "packet_in": self.packet_in,
            "packet_in_dropped": self.packet_in_dropped,
            "packet_out": self.packet_out,
            "digest_lists": self.digest_lists,
            "digest_lists_dropped": self.digest_lists_dropped,
        }

    def start(self) -> None:
        """Watch the CPU port and the digests, on the running event loop."""
        loop = asyncio.get_running_loop()
        if self._cpu_port:
            loop.add_reader(self._driver.cpu_fd, self._packets_in)
        self._polling = loop.create_task(self._poll())

    def stop(self) -> None:
        if self._cpu_port:
            asyncio.get_running_loop().remove_reader(self._driver.cpu_fd)
        if self._polling is not None:
            self._polling.cancel()

    def take(self, client: Client, request: p4r.StreamMessageRequest) -> None:
        """Do what a controller asks for on its stream. Raises StatusError."""
        kind = request.WhichOneof("update")
        if not self._device.arbitration.is_primary(client):
            raise denied("only the primary controller may send this")
        if kind == "packet":
            self._packet_out(request.packet)
        elif kind == "digest_ack":
            self._device.running_pipeline.digests.acknowledge(request.digest_ack)
        else:
            raise unimplemented(f"stream message {kind or 'without content'} is not supported")

    def _packet_out(self, packet: p4r.PacketOut) -> None:
        if not self._cpu_port:
            raise StatusError(Code.FAILED_PRECONDITION, "the switch was started without --cpu-port")
        frame = self._device.running_pipeline.packet_out.pack(packet)
        if not self._driver.cpu_send(frame):
            raise StatusError(
                Code.RESOURCE_EXHAUSTED,
                f"packet-out of {len(frame)} bytes: too long, or too many wait already",
            )
        self.packet_out += 1

    def _packets_in(self) -> None:
        for frame in self._driver.cpu_receive():
            self.packet_in += 1
            if not self._packet_in(frame):
                self.packet_in_dropped += 1

    def _packet_in(self, frame: bytes) -> bool:
        if self._device.running is None:
            return False
        packet = self._device.running.packet_in.unpack(frame)
        return self._deliver(p4r.StreamMessageResponse(packet=packet))

    def _digest(self, response: p4r.StreamMessageResponse) -> bool:
        delivered = self._deliver(response)
        self.digest_lists += 1
        self.digest_lists_dropped += not delivered
        return delivered

    def _deliver(self, response: p4r.StreamMessageResponse) -> bool:
        """Give a message to the primary of each role; False when nobody takes it."""
        clients = self._device.arbitration.primaries()
        return any([client.offer(response) for client in clients])  # noqa: C419  each gets it

    async def _poll(self) -> None:
        for turn in itertools.count():
            await asyncio.sleep(POLL_S)
            pipeline = self._device.running
            if pipeline is None:
                continue
            if pipeline.digests.active:
                pipeline.digests.collect(self._digest)
            if turn % IDLE_TURNS == 0:
                notification = pipeline.idle_timeouts.collect()
                if notification is not None:
                    self._deliver(notification)
