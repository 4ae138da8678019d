"""minip4 as a switch of p4-utils. This file runs in p4-utils' own Python environment.

It imports p4utils and Mininet, and runs the command `minip4`; it imports no module of this project.
`telemark run network.py` runs an unchanged script on minip4. A script can also select minip4 by

    from telemark_p4utils import NetworkAPI  # for: from p4utils.mininetlib.network_API import ...
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link, TCIntf
from p4utils.mininetlib import network_API
from p4utils.mininetlib.log import error, output, warning
from p4utils.mininetlib.node import P4RuntimeSwitch
from p4utils.utils.client import ThriftClient
from p4utils.utils.compiler import P4C, CompilationError
from p4utils.utils.helper import cksum

MINIP4 = shutil.which("minip4") or str(Path(__file__).resolve().parents[5] / ".venv/bin/minip4")
TELEMARK_ENV = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
SWITCH_CLI = (str(Path(MINIP4).with_name("python")), "-m", "importers.switch_cli")
READY = b"minip4 switch: ready"
# maximum time until a switch is ready; a loaded machine compiles the program slowly
START_S = 60.0
STOP_S = 10.0  # maximum time for draining queues and links
# p4c options that minip4 always implies
P4C_WORDS = ("--target bmv2", "--arch v1model", "--std p4-16")
# time with a unit as in tc(8); a number without unit is in us
TIME = re.compile(r"(\d+(?:\.\d*)?) *(s|sec|ms|msec|us|usec)?")
UNIT_US = {"s": 1_000_000, "sec": 1_000_000, "ms": 1000, "msec": 1000, None: 1}


class Minip4Error(Exception):
    """Unsupported option, or failed command of minip4. The message is one line."""


class Minip4Switch(P4RuntimeSwitch):
    """`minip4 switch` with P4Runtime. It implements bw, delay, jitter, loss and queues of links."""

    def __init__(self, name: str, *args: Any, **options: Any) -> None:
        super().__init__(name, *args, **{**options, "sw_bin": MINIP4})
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="telemark-")
        self.control = str(Path(self._folder.name, "control"))  # socket of `minip4 control`
        if self.enable_debugger:
            raise Minip4Error(f"switch {name}: minip4 has no debugger; use enableLogAll() for a "
                              "trace of all packets")  # fmt: skip

    def switch_running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def add_arguments(self) -> list[str]:
        """Return the command that starts the switch."""
        if not self.json_path:
            raise Minip4Error(f"switch {self.name}: no P4 program; call setP4Source()")
        command = [MINIP4, "switch", self.json_path, "--device-id", str(self.device_id),
                   "--grpc-server-addr", f"127.0.0.1:{self.grpc_port}",
                   "--control", self.control, "--seed", str(seed_of(self.name)),
                   "--priority-queues", str(self.priority_queues_num or 1)]  # fmt: skip
        if self.params.get("p4rt_path"):
            command += ["--p4info", self.params["p4rt_path"]]
        if self.pcap_dump:
            command += ["--pcap", self.pcap_dir or "."]
        if self.log_enabled:
            command += ["--trace"]
        for port, interface in self.intfs.items():
            if interface.name != "lo":
                command += ["-i", f"{port}@{interface.name}"]
                if link := link_properties(interface.name, interface.params):
                    output(f"{interface.name}: link implemented by minip4 instead of tc: {link}\n")
                    command += ["--link", f"{port}:{link},seed={seed_of(interface.name)}"]
        return command

    def start(self, controllers: object = None) -> None:
        """Start the switch; return when it forwards and P4Runtime responds."""
        folder = self.log_dir if self.log_enabled else self._folder.name
        log = Path(folder, f"p4s.{self.name}.log")
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                self.add_arguments(), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                env=TELEMARK_ENV, start_new_session=True,
            )  # fmt: skip
        end_s = time.monotonic() + START_S
        while READY not in log.read_bytes():
            if not self.switch_running() or time.monotonic() > end_s:
                lines = log.read_text().splitlines() or ["no output"]
                raise Minip4Error(f"switch {self.name}: did not start: {lines[-1]}")
            time.sleep(0.02)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the process, so that it completes its captures, and remove the interfaces."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        super().stop(deleteIntfs)

    def describe(self) -> None:
        """Print the gRPC port."""
        output(f"{self.name} -> gRPC port: {self.grpc_port}\n")


class Minip4Compiler(P4C):
    """`minip4 compile`. It always writes P4Info, because minip4 has only P4Runtime."""

    def __init__(self, p4_src: str, p4rt: bool = True, **options: Any) -> None:
        super().__init__(p4_src, p4rt=True, **options)

    def compile(self) -> None:
        """Write JSON and P4Info to p4c's paths. Raises CompilationError."""
        self.cksum = cksum(self.p4_src)
        options = " ".join(self.opts.split())
        for words in P4C_WORDS:
            options = options.replace(words, "")
        done = subprocess.run(
            [MINIP4, "compile", self.p4_src, *shlex.split(options), "-o", self.json_out,
             "--p4runtime-files", self.p4rt_out],
            env=TELEMARK_ENV, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CompilationError(done.stderr.strip())
        if done.stderr:
            warning(done.stderr)
        self.compiled = True


class Minip4Link(Link):
    """Link whose parameters minip4 implements at switches, and tc at hosts."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        cls1, cls2 = (Intf if isinstance(node, Minip4Switch) else TCIntf for node in (node1, node2))
        super().__init__(node1, node2, **{**params, "cls1": cls1, "cls2": cls2})


class Minip4Client(ThriftClient):
    """Executes a file of simple_switch_CLI commands over P4Runtime."""

    def __init__(
        self, thrift_port: int, sw_name: str, network: "NetworkAPI", **options: Any
    ) -> None:
        super().__init__(thrift_port, sw_name, **options)
        self._switch = network.net[sw_name]

    def configure(self) -> None:
        """Run the commands of the file; print their output and report failed commands."""
        if not self.cli_input or not os.path.isfile(self.cli_input):
            raise Minip4Error(f"switch {self.sw_name}: no file {self.cli_input}")
        done = subprocess.run(
            [*SWITCH_CLI, self._switch.name, f"127.0.0.1:{self._switch.grpc_port}",
             str(self._switch.device_id), self._switch.control, self.cli_input],
            env=TELEMARK_ENV, capture_output=True, text=True, check=False,
        )  # fmt: skip
        output(done.stdout)
        if done.returncode > 1:
            raise Minip4Error(done.stderr.strip())
        if done.returncode:
            error(f"Switch {self.sw_name}: commands in {self.cli_input} failed\n")


class CompiledNetworkAPI(network_API.NetworkAPI):
    """p4-utils' NetworkAPI with its bmv2 switches, but with minip4's compiler instead of p4c."""

    def __init__(self, *args: Any, **params: Any) -> None:
        super().__init__(*args, **params)
        self.setCompiler(Minip4Compiler)


class NetworkAPI(CompiledNetworkAPI):
    """p4-utils' NetworkAPI with the switches, compiler and links of minip4."""

    def __init__(self, *args: Any, **params: Any) -> None:
        super().__init__(*args, **params)
        self.setSwitchClient(Minip4Client, network=self)

    def addP4Switch(self, name: str, **opts: Any) -> str:
        """Add a minip4 switch with P4Runtime, unless `cls` is a different class."""
        if issubclass(opts.setdefault("cls", Minip4Switch), Minip4Switch):
            opts["isP4RuntimeSwitch"] = True  # p4-utils assigns a gRPC port because of this option
        return super().addP4Switch(name, **opts)

    def addP4RuntimeSwitch(self, name: str, **opts: Any) -> str:
        """Add a minip4 switch, unless `cls` is a different class."""
        opts.setdefault("cls", Minip4Switch)
        return super().addP4RuntimeSwitch(name, **opts)

    def addLink(self, node1: str, node2: str, *args: Any, **opts: Any) -> int:
        """Add a Minip4Link, unless `cls` is a different class."""
        opts.setdefault("cls", Minip4Link)
        return super().addLink(node1, node2, *args, **opts)


def seed_of(name: str) -> int:
    """Return the seed of a switch or a link end, derived from the seed of the run."""
    return zlib.crc32(f"{os.environ.get('TELEMARK_SEED', '1')}/{name}".encode())


def link_properties(interface: str, params: dict[str, Any]) -> str:
    """Convert Mininet's link parameters to those of `minip4 switch --link`; "" if there are none.

    Raises Minip4Error for invalid values.
    """
    given = {word: params[word] for word in WORDS if params.get(word) is not None}
    values = []
    for word, value in given.items():
        name, translate = WORDS[word]
        try:
            values.append(f"{name}={translate(value)}")
        except (TypeError, ValueError):
            raise Minip4Error(f"{interface}: {word} {value!r}: not a valid value for tc") from None
    return ",".join(values)


def _time_us(text: str) -> float:
    match = TIME.fullmatch(str(text))
    if match is None:
        raise ValueError(text)
    return float(match[1]) * UNIT_US.get(match[2], 1)


WORDS: dict[str, tuple[str, Callable[[Any], float]]] = {
    "bw": ("rate_bps", lambda mbit: round(float(mbit) * 1e6)),
    "delay": ("delay_us", _time_us),
    "jitter": ("jitter_us", _time_us),
    "loss": ("loss_probability", lambda percent: float(percent) / 100),
    "max_queue_size": ("queue_packets", int),
}
