"""What a switch and its controllers tell each other on streams: packets in and out, digests."""

import asyncio

from finsy.proto import p4r

from minip4.engine.driver import Driver
from minip4.runtime.arbitration import Client
from minip4.runtime.device import Device
from minip4.runtime.status import Code, StatusError, denied, unimplemented


class Messages:
    """Carries frames between the CPU port and the primary controllers' streams."""

    def __init__(self, device: Device, driver: Driver, *, cpu_port: bool) -> None:
        self._device = device
        self._driver = driver
        self._cpu_port = cpu_port
        self.packet_in = 0
        self.packet_in_dropped = 0  # no controller, or a controller too slow
        self.packet_out = 0

    def start(self) -> None:
        """Watch the CPU port, on the running event loop."""
        if self._cpu_port:
            asyncio.get_running_loop().add_reader(self._driver.cpu_fd, self._packets_in)

    def stop(self) -> None:
        if self._cpu_port:
            asyncio.get_running_loop().remove_reader(self._driver.cpu_fd)

    def take(self, client: Client, request: p4r.StreamMessageRequest) -> None:
        """Do what a controller asks for on its stream. Raises StatusError."""
        kind = request.WhichOneof("update")
        if not self._device.arbitration.is_primary(client):
            raise denied("only the primary controller may send this")
        if kind == "packet":
            self._packet_out(request.packet)
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
            if not self._deliver(frame):
                self.packet_in_dropped += 1

    def _deliver(self, frame: bytes) -> bool:
        if self._device.running is None:
            return False
        response = p4r.StreamMessageResponse()
        response.packet.CopyFrom(self._device.running.packet_in.unpack(frame))
        delivered = [client.offer(response) for client in self._device.arbitration.primaries()]
        return any(delivered)
