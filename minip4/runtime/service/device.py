"""The device that P4Runtime controls: its arbitration and its running and saved pipelines."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic

from finsy.proto import p4i, p4r

from minip4.engine.errors import EngineError, TooLarge
from minip4.errors import Minip4Error
from minip4.runtime.dataplane import D
from minip4.runtime.service import device_config
from minip4.runtime.service.arbitration import Arbitration
from minip4.runtime.service.pipeline import Pipeline
from minip4.runtime.status import Code, StatusError, invalid

SetRequest = p4r.SetForwardingPipelineConfigRequest
GetRequest = p4r.GetForwardingPipelineConfigRequest


class Device(Generic[D]):
    """One switch as its controllers see it.

    `make_dataplane` creates a data plane from BMv2 JSON. This is slow, because it may run the C
    compiler. `install` activates the new data plane and closes the previous one. With `in_thread`,
    make_dataplane runs in its own thread, and the server handles other calls in the meantime.
    """

    def __init__(
        self,
        device_id: int,
        make_dataplane: Callable[[dict[str, Any]], D],
        install: Callable[[D], None],
        *,
        in_thread: bool = True,
    ) -> None:
        self.device_id = device_id
        self.arbitration = Arbitration(device_id)
        self.running: Pipeline[D] | None = None
        self._down_ports: set[int] = set()
        self._saved: Pipeline[D] | None = None
        self._make_dataplane = make_dataplane
        self._install = install
        self._in_thread = in_thread
        self._changing = asyncio.Lock()
        # held while entries are read or written, or while the pipeline is replaced
        self.access = asyncio.Lock()

    def adopt(self, p4info: p4i.P4Info, blob: bytes, dataplane: D) -> None:
        """Take over a data plane that already runs."""
        config = p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=blob)
        self.running = Pipeline(config, dataplane, self._down_ports)

    def set_port(self, port: int, is_up: bool) -> None:
        """Activate or deactivate the members that watch a port, after it went up or down."""
        if is_up:
            self._down_ports.discard(port)
        else:
            self._down_ports.add(port)
        for pipeline in (self.running, self._saved):
            if pipeline is not None:
                pipeline.profiles.port_changed(port)

    @property
    def pipeline(self) -> Pipeline[D]:
        """Return the pipeline for the calls Read and Write: the saved one, or else the running one.

        P4Runtime spec 10.2.
        """
        return self._saved or self.running_pipeline

    @property
    def running_pipeline(self) -> Pipeline[D]:
        """Return the running pipeline.

        Raises StatusError if no controller has set its P4Info.
        """
        if self.running is None:
            raise StatusError(
                Code.FAILED_PRECONDITION,
                "No forwarding pipeline config set for this device: push one, or start the switch "
                "with --p4info",
            )
        return self.running

    def get_config(self, response_type: int) -> p4r.ForwardingPipelineConfig:
        """Return the requested fields of the pipeline's config."""
        full = self.pipeline.config
        config = p4r.ForwardingPipelineConfig()
        if full.HasField("cookie"):
            config.cookie.CopyFrom(full.cookie)
        if response_type in (GetRequest.ALL, GetRequest.P4INFO_AND_COOKIE):
            config.p4info.CopyFrom(full.p4info)
        if response_type in (GetRequest.ALL, GetRequest.DEVICE_CONFIG_AND_COOKIE):
            config.p4_device_config = full.p4_device_config
        return config

    async def set_config(self, action: int, config: p4r.ForwardingPipelineConfig) -> None:
        """Handle SetForwardingPipelineConfig (spec 10.3).

        On failure, the running pipeline stays active.
        """
        async with self._changing:
            if action == SetRequest.COMMIT:
                async with self.access:
                    self._commit()
                return
            if action not in SetRequest.Action.values() or action == SetRequest.UNSPECIFIED:
                raise invalid(f"action {action} is unknown to SetForwardingPipelineConfig")
            pipeline = await self._build(config)
            async with self.access:
                self._put_in_place(action, pipeline)

    def _put_in_place(self, action: int, pipeline: Pipeline[D]) -> None:
        try:
            if action == SetRequest.RECONCILE_AND_COMMIT and self.running is not None:
                pipeline.take_over(self.running)
        except StatusError:
            pipeline.close()
            raise
        if action == SetRequest.VERIFY:
            pipeline.close()
            return
        self._forget_saved()
        if action == SetRequest.VERIFY_AND_SAVE:
            self._saved = pipeline
        else:
            self._run(pipeline)

    async def _build(self, config: p4r.ForwardingPipelineConfig) -> Pipeline[D]:
        program = device_config.decode(config.p4_device_config)
        try:
            if self._in_thread:
                dataplane = await asyncio.to_thread(self._make_dataplane, program)
            else:
                dataplane = self._make_dataplane(program)
        except EngineError as error:
            is_large = isinstance(error, TooLarge)
            code = Code.RESOURCE_EXHAUSTED if is_large else Code.INVALID_ARGUMENT
            raise StatusError(code, f"p4_device_config: {error}") from error
        except Minip4Error as error:
            raise StatusError(Code.INTERNAL, str(error)) from error
        try:
            return Pipeline(config, dataplane, self._down_ports)
        except StatusError:
            dataplane.close()
            raise

    def _commit(self) -> None:
        if self._saved is None:
            raise StatusError(
                Code.FAILED_PRECONDITION,
                "there is no saved config to commit; send VERIFY_AND_SAVE first",
            )
        saved, self._saved = self._saved, None
        self._run(saved)

    def _run(self, pipeline: Pipeline[D]) -> None:
        if self.running is not None:
            self.running.closed = True
        self._install(pipeline.dataplane)
        self.running = pipeline

    def _forget_saved(self) -> None:
        if self._saved is not None:
            self._saved.close()
            self._saved = None
