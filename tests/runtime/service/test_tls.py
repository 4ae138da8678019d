"""P4Runtime over TLS, with finsy and with `minip4 tables`. Invalid certificates are rejected."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import finsy as fy
import pytest
from harness import TIMEOUT_S, asynchronous, compiled

MINIP4 = (sys.executable, "-m", "minip4.cli")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


def make_pair(folder: Path, name: str, authority: Pair | None = None) -> Pair:
    """Create a certificate for 127.0.0.1. Without `authority`, it signs itself."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    signed = [] if authority is None else ["-CA", authority.cert, "-CAkey", authority.key]
    kind = "critical,CA:TRUE" if authority is None else "CA:FALSE"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"basicConstraints={kind}",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pair.key, "-out", pair.cert, *signed],
        check=True, capture_output=True,
    )  # fmt: skip
    return pair


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = make_pair(folder, "authority")
    names = ("server", "client")
    made = {name: make_pair(folder, name, authority) for name in names}
    return {"authority": authority, "stranger": make_pair(folder, "stranger"), **made}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "control.json"
    path.write_text(json.dumps(compiled().bmv2_json))
    path.with_suffix(".txtpb").write_text(str(compiled().p4info))
    return path


def tls(pairs: dict[str, Pair]) -> list[str]:
    server = pairs["server"]
    return ["--grpc-server-ssl", "--grpc-server-cert", str(server.cert),
            "--grpc-server-key", str(server.key)]  # fmt: skip


def clients_too(pairs: dict[str, Pair]) -> list[str]:
    return [*tls(pairs), "--grpc-server-cacert", str(pairs["authority"].cert),
            "--grpc-server-with-client-auth"]  # fmt: skip


class Switch:
    """A switch without ports. `address` is the address of its P4Runtime server."""

    def __init__(self, program: Path, options: list[str]) -> None:
        self._process = subprocess.Popen(
            [*MINIP4, "switch", str(program), "--p4info", str(program.with_suffix(".txtpb")),
             "--grpc-server-addr", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready.startswith("minip4 switch: ready"), ready
        self.address = ready.split(", ")[1]

    def __enter__(self) -> "Switch":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=TIMEOUT_S)


async def connects(address: str, credentials: fy.GRPCCredentialsTLS | None) -> bool:
    """Return whether finsy can connect to the switch and becomes primary."""
    options = fy.SwitchOptions(channel_credentials=credentials, fail_fast=True)

    async def ask() -> bool:
        async with fy.Switch("s1", address, options) as switch:
            return switch.is_primary

    try:
        return await asyncio.wait_for(ask(), TIMEOUT_S)
    except fy.P4ClientError as error:
        if error.code != fy.GRPCStatusCode.UNAVAILABLE:
            raise
        return False


def credentials(pairs: dict[str, Pair], authority: str, client: str | None = None
                ) -> fy.GRPCCredentialsTLS:  # fmt: skip
    pair = None if client is None else pairs[client]
    return fy.GRPCCredentialsTLS(
        cacert=pairs[authority].cert,
        cert=pair and pair.cert,
        private_key=pair and pair.key,
    )


@asynchronous
async def test_clients_connect_only_with_trusted_certificates(
    pairs: dict[str, Pair], program: Path
) -> None:
    with Switch(program, tls(pairs)) as plain, Switch(program, clients_too(pairs)) as mutual:
        assert await connects(plain.address, credentials(pairs, "authority"))
        assert not await connects(plain.address, credentials(pairs, "stranger"))
        assert await connects(mutual.address, credentials(pairs, "authority", "client"))
        assert not await connects(mutual.address, credentials(pairs, "authority", "stranger"))
        shown = await asyncio.to_thread(
            subprocess.run,
            [*MINIP4, "tables", "--grpc-server-addr", mutual.address, "--grpc-ssl",
             "--grpc-cacert", pairs["authority"].cert, "--grpc-cert", pairs["client"].cert,
             "--grpc-key", pairs["client"].key, "fixed"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "table MyIngress.fixed" in shown.stdout, shown.stderr


def bad_options(pairs: dict[str, Pair]) -> Iterator[tuple[list[str], str]]:
    server, other = pairs["server"], pairs["stranger"]
    ssl = "--grpc-server-ssl"
    cert, key = ["--grpc-server-cert", str(server.cert)], ["--grpc-server-key", str(server.key)]
    yield cert, "--grpc-server-cert needs --grpc-server-ssl"
    yield [ssl, *cert], "needs --grpc-server-cert and --grpc-server-key"
    yield [*tls(pairs), "--grpc-server-with-client-auth"], "with-client-auth together"
    yield [*tls(pairs), "--grpc-server-cacert", str(other.cert)], "with-client-auth together"
    yield [ssl, *cert, "--grpc-server-key", "nosuch.pem"], "nosuch.pem: No such file"
    yield [ssl, *cert, "--grpc-server-key", str(other.key)], "KEY_VALUES_MISMATCH"
    yield [ssl, *key, "--grpc-server-cert", __file__], "a certificate and its private key in PEM"
    clients = ["--grpc-server-with-client-auth", "--grpc-server-cacert", __file__]
    yield [*tls(pairs), *clients], "expected certificates in PEM"


def test_bad_certificates_are_refused_in_one_line(pairs: dict[str, Pair], program: Path) -> None:
    for options, message in bad_options(pairs):
        run = subprocess.run([*MINIP4, "switch", str(program), *options], capture_output=True,
                             text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
        assert run.returncode == 2, options
        assert run.stderr.count("\n") == 1, run.stderr
        assert message in run.stderr
