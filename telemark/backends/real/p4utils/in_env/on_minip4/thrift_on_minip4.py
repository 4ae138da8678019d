"""SimpleSwitchThriftAPI for a minip4 switch, which has no Thrift.

It implements only reset_state(), which p4-utils' P4Runtime controllers call. They call it because
bmv2 keeps some state when a program is pushed again. minip4 resets all its state when a program is
pushed.
"""

from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf import text_format  # type: ignore[import-untyped]
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from p4utils.utils.helper import load_topo
from p4utils.utils.p4runtime_API import api

TOPOLOGY = "topology.json"  # p4-utils writes this file to the working directory
ELECTION_ID = (1, 0)  # (high, low) of the election id that p4-utils' controllers use


class SimpleSwitchThriftAPI:
    """API of the switch with this Thrift port in topology.json. The port itself is not used."""

    def __init__(
        self, thrift_port: int, thrift_ip: str = "localhost", json_path: str | None = None
    ) -> None:
        switches = load_topo(TOPOLOGY).get_p4switches().values()
        found = [switch for switch in switches if switch["thrift_port"] == thrift_port]
        if not found:
            raise ConnectionError(f"{TOPOLOGY}: no switch has Thrift port {thrift_port}")
        self._switch = found[0]

    def reset_state(self) -> None:
        """Push the program again.

        If the switch has a primary controller, it pushes as the primary.
        """
        switch = self._switch
        files = api.FwdPipeConfig(switch["p4rt_path"], switch["json_path"])
        address = f"127.0.0.1:{switch['grpc_port']}"
        try:
            _push(switch["device_id"], address, files)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.PERMISSION_DENIED:
                raise
            client, _ = api.setup(switch["device_id"], address, ELECTION_ID, config=files)
            api.teardown(client)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"minip4 has no Thrift: {name}() is not available; use SimpleSwitchP4RuntimeAPI for "
            "tables, counters, meters, groups, sessions and digests, or --target bmv2"
        )


def _push(device_id: int, address: str, files: Any) -> None:
    high, low = ELECTION_ID
    request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=device_id)
    request.election_id.high, request.election_id.low = high, low
    request.action = p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    text_format.Merge(Path(files.p4info).read_text(), request.config.p4info)
    request.config.p4_device_config = Path(files.bin).read_bytes()
    with grpc.insecure_channel(address) as channel:
        p4runtime_pb2_grpc.P4RuntimeStub(channel).SetForwardingPipelineConfig(request)
