"""Status of P4Runtime calls: canonical codes, and an error per update of a Write."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import grpc
from finsy.proto import p4r, rpc_status

from minip4.engine import errors as engine_errors

Code = grpc.StatusCode

# Clients accept at most 8 to 64 KB of trailing metadata. If the details are longer than this
# constant, the status does not contain them.
MAX_DETAILS_BYTES = 32 * 1024


class StatusError(Exception):
    """A request that fails: the canonical code and a one-line message."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> StatusError:
    return StatusError(Code.INVALID_ARGUMENT, message)


def not_found(message: str) -> StatusError:
    return StatusError(Code.NOT_FOUND, message)


def out_of_range(message: str) -> StatusError:
    return StatusError(Code.OUT_OF_RANGE, message)


def denied(message: str) -> StatusError:
    return StatusError(Code.PERMISSION_DENIED, message)


def exhausted(message: str) -> StatusError:
    return StatusError(Code.RESOURCE_EXHAUSTED, message)


def unimplemented(message: str) -> StatusError:
    return StatusError(Code.UNIMPLEMENTED, message)


_ENGINE_CODES = (
    (engine_errors.NotFound, Code.NOT_FOUND),
    (engine_errors.AlreadyExists, Code.ALREADY_EXISTS),
    (engine_errors.InvalidArgument, Code.INVALID_ARGUMENT),
    (engine_errors.TableFull, Code.RESOURCE_EXHAUSTED),
    (engine_errors.NotSupported, Code.UNIMPLEMENTED),
)


@contextmanager
def engine_calls(what: str | Callable[[], str]) -> Iterator[None]:
    """Convert engine errors to a StatusError; `what` names the operation in its message."""
    try:
        yield
    except engine_errors.EngineError as error:
        code = next((c for kind, c in _ENGINE_CODES if isinstance(error, kind)), Code.INTERNAL)
        text = what if isinstance(what, str) else what()
        raise StatusError(code, f"{text}: {error.reason or error}") from error


def details(status: rpc_status.Status) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata that contains a google.rpc.Status."""
    return (("grpc-status-details-bin", status.SerializeToString()),)


def write_status(errors: Sequence[StatusError | None]) -> rpc_status.Status:
    """Return the google.rpc.Status of a Write, with one p4.v1.Error per update (spec 12.3)."""
    failed = [(i, error) for i, error in enumerate(errors) if error is not None]
    first, error = failed[0]
    message = f"{len(failed)} of {len(errors)} updates failed; the first one is update {first}: "
    status = rpc_status.Status(code=Code.UNKNOWN.value[0], message=message + error.message)
    for entry in errors:
        detail = p4r.Error()
        if entry is not None:
            detail.canonical_code = entry.code.value[0]
            detail.message = entry.message
        status.details.add().Pack(detail)
    if status.ByteSize() > MAX_DETAILS_BYTES:
        del status.details[:]
    return status
