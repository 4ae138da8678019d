"""TLS of the P4Runtime server and clients; certificates in PEM files are checked at the start."""

import ssl
from pathlib import Path

import grpc

from minip4.errors import Minip4Error


def server_credentials(cert: Path, key: Path, cacert: Path | None) -> grpc.ServerCredentials:
    """Return server credentials; with `cacert`, clients need a certificate of that CA.

    Raises Minip4Error for a bad file. Without this check, gRPC would start and then reject every
    client.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _check_pair(context, cert, key)
    if cacert is not None:
        _check_authority(context, cacert)
    return grpc.ssl_server_credentials(
        [(key.read_bytes(), cert.read_bytes())],
        root_certificates=None if cacert is None else cacert.read_bytes(),
        require_client_auth=cacert is not None,
    )


def channel_credentials(
    cacert: Path | None, cert: Path | None, key: Path | None
) -> grpc.ChannelCredentials:
    """Return client credentials; without `cacert`, the CAs of the system are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if cacert is not None:
        _check_authority(context, cacert)
    if (cert is None) != (key is None):
        raise Minip4Error("a client certificate needs its private key and vice versa")
    if cert is not None and key is not None:
        _check_pair(context, cert, key)
    return grpc.ssl_channel_credentials(
        *(None if path is None else path.read_bytes() for path in (cacert, key, cert))
    )


def _check_pair(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    for path in (cert, key):
        _check_file(path)

    def no_password() -> str:
        raise Minip4Error(f"{key}: the private key is encrypted; expected a key without a password")

    try:
        context.load_cert_chain(cert, key, no_password)
    except (ssl.SSLError, OSError) as error:
        raise Minip4Error(
            f"{cert}, {key}: expected a certificate and its private key in PEM: {_reason(error)}"
        ) from error


def _check_authority(context: ssl.SSLContext, cacert: Path) -> None:
    _check_file(cacert)
    try:
        context.load_verify_locations(cacert)
    except (ssl.SSLError, OSError) as error:
        raise Minip4Error(f"{cacert}: expected certificates in PEM: {_reason(error)}") from error


def _check_file(path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise Minip4Error(f"{path}: {error.strerror}") from error


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error)
