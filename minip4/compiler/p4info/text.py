"""P4Info files: text, JSON or binary protobuf, according to the suffix."""

from __future__ import annotations

from pathlib import Path

from finsy.proto import p4i
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]

from minip4.errors import Minip4Error

TEXTS = (".txtpb", ".txt")  # the second one is p4c's older suffix for the same format
_HEADER = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"


def p4info_text(message: p4i.P4Info) -> str:
    return _HEADER + text_format.MessageToString(message, as_utf8=False)


def check_suffix(path: Path) -> None:
    """Raise Minip4Error for a suffix that `write_p4info` does not support."""
    if path.suffix not in (*TEXTS, ".json", ".bin"):
        raise Minip4Error(f"{path}: unknown type of P4Info file; expected .txtpb, .json or .bin")


def write_p4info(message: p4i.P4Info, path: Path) -> None:
    check_suffix(path)
    if path.suffix in TEXTS:
        path.write_text(p4info_text(message))
    elif path.suffix == ".json":
        path.write_text(json_format.MessageToJson(message))
    else:
        path.write_bytes(message.SerializeToString(deterministic=True))
