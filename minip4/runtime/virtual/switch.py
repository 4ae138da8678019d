"""A switch of a virtual network: an engine on the event queue, with a P4Runtime service."""

import json
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from finsy.proto import p4i

from minip4.engine.engine import Engine
from minip4.errors import Minip4Error
from minip4.runtime.service.device import Device
from minip4.runtime.service.server import Service
from minip4.runtime.service.stream import Messages
from minip4.runtime.status import StatusError
from minip4.runtime.switch.control import ControlServer
from minip4.runtime.switch.counters import counters, total
from minip4.runtime.switch.options import SwitchOptions
from minip4.runtime.switch.port_settings import PortSettings
from minip4.runtime.switch.tracing import TraceFile
from minip4.runtime.virtual.channel import Clock
from minip4.simulator.virtual import Virtual


class SwitchProgram:
    """A compiled program, and the engine that all switches with this program copy."""

    def __init__(self, bmv2_json: dict[str, Any], p4info: p4i.P4Info) -> None:
        self.bmv2_json = bmv2_json
        self.blob = json.dumps(bmv2_json).encode()
        self.p4info = p4info
        self.engine = Engine(bmv2_json)

    @cached_property
    def traced_engine(self) -> Engine:
        """Return the engine with tracing, which switches with a trace copy."""
        return Engine(self.bmv2_json, trace=True)

    def close(self) -> None:
        """Free the two engines, but not the copies in switches."""
        self.engine.close()
        if "traced_engine" in self.__dict__:
            self.traced_engine.close()


class VirtualSwitch:
    """The counterpart of `minip4 switch`.

    The caller must first connect the ports of the switch in `virtual`.

    Options for interfaces, files and addresses have no effect.
    """

    def __init__(
        self, virtual: Virtual, node: int, program: SwitchProgram, options: SwitchOptions,
        *, clock: Clock, interfaces: Mapping[int, str],
    ) -> None:  # fmt: skip
        """Create the switch; `interfaces` are the names of its ports in the counters."""
        self._virtual = virtual
        self._interfaces = interfaces
        self._node = node
        self._program = program
        self._options = options
        self._clock = clock
        self._retired: list[dict[str, Any]] = []  # counters of the engines of earlier pipelines
        self._settings = PortSettings(options, virtual.ports(node))
        self.dataplane = self._make_engine(program.bmv2_json)
        self._settings.apply(self.dataplane)
        self._trace: TraceFile | None = None
        if options.trace is not None:
            self._trace = TraceFile(self.dataplane, options.trace, sys.stdout)
        self.device = Device(options.device_id, self._make_engine, self._install, in_thread=False)
        try:
            self.device.adopt(program.p4info, program.blob, self.dataplane)
        except StatusError as error:
            raise Minip4Error(f"P4Info: {error.message}") from error
        # in TNA, frames to a connected CPU port leave through its link
        has_messages = options.cpu_port is not None and options.cpu_port not in interfaces
        self.messages = Messages(self.device, self, cpu_port=has_messages)
        self.service = Service(self.device, self.messages, has_pauses=False)
        self._control = ControlServer(self, self._settings)
        virtual.install(node, self.dataplane)

    def control(self, call: str, **values: Any) -> Any:
        """Perform a call of `minip4 control`, see minip4.runtime.switch.control.

        Raises Minip4Error.
        """
        return self._control.call(call, values)

    def wake(self) -> None:
        """Tell the network that work may be due earlier than the network expects."""
        self._virtual.refresh(self._node)

    @property
    def is_traced(self) -> bool:
        """Return whether there is a trace. If so, write_trace() must be called regularly."""
        return self._trace is not None

    def write_trace(self, *, is_end: bool = False) -> None:
        """Write the new blocks of the trace. Raises Minip4Error."""
        if self._trace is None:
            return
        if is_end:
            self._trace.close()
        else:
            self._trace.write()
        if self._trace.error is not None:
            raise Minip4Error(self._trace.error)

    @property
    def wants_polls(self) -> bool:
        """Return whether a client requested digests or idle notifications. Both need polling."""
        pipeline = self.device.running
        return pipeline is not None and (pipeline.digests.active or pipeline.idle_timeouts.active)

    def take_messages(self) -> None:
        """Send frames and digests to the controllers while the network is stopped."""
        self.messages.packets_in()
        self.messages.collect()

    def counters(self) -> dict[str, Any]:
        """Return the current counters in the format of `minip4 switch --counters`."""
        part = self._engine_part(self.dataplane)
        for earlier in self._retired:
            part = total(part, earlier)
        for port, counted in part["ports"].items():
            packets, size = self._virtual.flying(self._node, int(port))
            counted["link"]["delivered_packets"] -= packets
            counted["link"]["delivered_bytes"] -= size
            counted["drops"]["link"] = counted["link"]["lost_packets"]
            counted["drops"]["too_long"] = self._virtual.too_long(self._node, int(port))
        ports = {
            str(port): {
                "interface": name,
                **part["ports"][str(port)],
                "kernel": {"receive_drops": 0, "send_errors": 0},
            }
            for port, name in self._interfaces.items()
        }
        return {
            "device_id": self._options.device_id,
            "engine": part["engine"],
            "ports": ports,
            "other_ports": part["other_ports"],
            "cpu": {
                "packet_in": self.messages.packet_in,
                "packet_in_dropped": self.messages.packet_in_dropped,
                "packet_out": self.messages.packet_out,
            },
        }

    # The following methods are the Driver interface that Messages uses.

    def cpu_receive(self) -> list[bytes]:
        return self._virtual.cpu_receive(self._node)

    def cpu_send(self, frame: bytes) -> bool:
        return self._virtual.cpu_send(self._node, frame)

    def _make_engine(self, bmv2_json: dict[str, Any]) -> Engine:
        options = self._options
        program, trace = self._program, options.trace is not None
        if bmv2_json == program.bmv2_json:
            original = program.traced_engine if trace else program.engine
            engine = original.another(options.seed)
        else:
            engine = Engine(bmv2_json, seed=options.seed, trace=trace)
        engine.clock = self._clock.now_ns
        self._virtual.prepare(engine)
        # Clock offset and drift start at 0, because virtual time started at 0.
        engine.set_clock(options.clock_offset_us, options.clock_drift_ppb, since_ns=0)
        return engine

    def _install(self, engine: Engine) -> None:
        self._retired.append(self._engine_part(self.dataplane))
        if self._trace is not None:
            self._trace.swap(engine)
        self._settings.reapply(engine, self.dataplane)
        self._virtual.install(self._node, engine)
        self.dataplane = engine

    def _engine_part(self, engine: Engine) -> dict[str, Any]:
        ports = self._virtual.ports(self._node)
        return counters(engine, ports, self._settings.priority_queues)
