"""Stream messages between a switch and its controllers: packets, digests, idle notifications."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Protocol

from finsy.proto import p4r

from minip4.runtime.service.arbitration import Client
from minip4.runtime.service.device import Device
from minip4.runtime.status import Code, StatusError, denied, unimplemented

POLL_S = 0.01  # polling interval for digests, if a client wants digests
IDLE_TURNS = 25  # idle entries are checked in every 25th poll


class Driver(Protocol):
    """Moves frames between the engine's CPU port and the streams."""

    def cpu_receive(self) -> list[bytes]: ...
    def cpu_send(self, frame: bytes) -> bool: ...


class Messages:
    """Moves frames, digests and notifications between the engine and the controllers."""

    def __init__(self, device: Device, driver: Driver, *, cpu_port: bool) -> None:
        self._device = device
        self._driver = driver
        self._cpu_port = cpu_port
        self._cpu_fd: int | None = None
        self._polling: asyncio.Task[None] | None = None
        self.packet_in = 0
        self.packet_in_dropped = 0
        self.packet_out = 0
        self.digest_lists = 0
        self.digest_lists_dropped = 0

    def counters(self) -> dict[str, int]:
        """Return the counts of sent messages and of messages that no controller received."""
        return {
            "packet_in": self.packet_in,
            "packet_in_dropped": self.packet_in_dropped,
            "packet_out": self.packet_out,
            "digest_lists": self.digest_lists,
            "digest_lists_dropped": self.digest_lists_dropped,
        }

    def start(self, cpu_fd: int | None) -> None:
        """Start to watch the CPU port (None means no CPU port) and the digests.

        Uses the running event loop.
        """
        loop = asyncio.get_running_loop()
        if cpu_fd is not None:
            loop.add_reader(cpu_fd, self.packets_in)
        self._cpu_fd = cpu_fd
        self._polling = loop.create_task(self._poll())

    def stop(self) -> None:
        if self._cpu_fd is not None:
            asyncio.get_running_loop().remove_reader(self._cpu_fd)
        if self._polling is not None:
            self._polling.cancel()

    def take(self, client: Client, request: p4r.StreamMessageRequest) -> None:
        """Handle a stream message of a controller. Raises StatusError."""
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
            raise StatusError(
                Code.FAILED_PRECONDITION,
                "the switch has no port for packet-out: it was started without --cpu-port, or the "
                "CPU port has an interface",
            )
        frame = self._device.running_pipeline.packet_out.pack(packet)
        if not self._driver.cpu_send(frame):
            raise StatusError(
                Code.RESOURCE_EXHAUSTED,
                f"packet-out of {len(frame)} bytes: too long, or too many packet-outs are queued",
            )
        self.packet_out += 1

    def packets_in(self) -> None:
        """Send the queued frames of the CPU port to the controllers."""
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
        """Send a message to the primary of each role.

        Returns False if there is no primary.
        """
        clients = self._device.arbitration.primaries()
        return any([client.offer(response) for client in clients])  # noqa: C419  offered to all

    def collect(self) -> None:
        """Fetch the digests of the engine and send the due digests to the controllers."""
        pipeline = self._device.running
        if pipeline is not None and pipeline.digests.active:
            pipeline.digests.collect(self._deliver)

    def collect_idle(self) -> None:
        """Notify the controllers of idle entries."""
        for _ in self._tell_idle():
            pass

    def _tell_idle(self) -> Iterator[None]:
        """Send the notifications and let other tasks run after each message."""
        pipeline = self._device.running
        if pipeline is None:
            return
        for notification in pipeline.idle_timeouts.collect():
            self._deliver(notification)
            yield
            if pipeline.closed:  # another task closed it
                return

    async def _poll(self) -> None:
        for turn in itertools.count():
            await asyncio.sleep(POLL_S)
            try:
                self.collect()
                if turn % IDLE_TURNS == 0:
                    for _ in self._tell_idle():
                        await asyncio.sleep(0)
            except Exception as error:  # reported like an error in any callback; polling continues
                asyncio.get_running_loop().call_exception_handler(
                    {
                        "message": "cannot send digests or idle notifications",
                        "exception": error,
                    }
                )
