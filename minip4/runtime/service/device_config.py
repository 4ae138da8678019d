"""p4_device_config: BMv2 JSON, plain or as device_data of a p4.tmp.P4DeviceConfig."""

import json
from typing import Any

from google.protobuf import message  # type: ignore[import-untyped]
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from minip4.runtime.status import Code, StatusError, invalid

MAX_BYTES = 16 << 20  # the decoded Python objects need twenty times as much memory
_DEVICE_DATA = 3  # field number of device_data, see proto/p4/tmp/p4config.proto of PI
_LENGTH_DELIMITED = 2  # protobuf wire type of bytes


def decode(blob: bytes) -> dict[str, Any]:
    """Decode the program from p4_device_config. Raises StatusError.

    PI accepts both forms; the controllers of p4lang/tutorials send a P4DeviceConfig. No input is
    valid in both forms: a message starts with a field tag, and a JSON object starts with `{`. As a
    tag, `{` would start a group.
    """
    if len(blob) > MAX_BYTES:
        raise StatusError(
            Code.RESOURCE_EXHAUSTED,
            f"p4_device_config: {len(blob)} bytes; at most {MAX_BYTES} are accepted",
        )
    try:
        program = json.loads(_device_data(blob))
    except (ValueError, RecursionError) as error:
        raise invalid(f"p4_device_config: expected BMv2 JSON: {error}") from error
    if not isinstance(program, dict):
        raise invalid("p4_device_config: expected BMv2 JSON, whose root is an object")
    return program


def _device_data(blob: bytes) -> bytes:
    config = Empty()  # Empty() knows none of the fields, so it retains them as unknown fields
    try:
        config.ParseFromString(blob)
    except message.DecodeError:
        return blob
    found = [
        field.data
        for field in UnknownFieldSet(config)
        if field.field_number == _DEVICE_DATA and field.wire_type == _LENGTH_DELIMITED
    ]
    return found[-1] if found else blob
