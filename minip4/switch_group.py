"""A process with several switches: their frames to each other never leave the process.

python -m minip4.switch_group FD INTERFACES [--sanitize]

INTERFACES is as in minip4.ports.driver.Workers. FD is a Unix socket (SOCK_SEQPACKET). Each message
on it starts a switch. The message is a JSON object with the `arguments` of `minip4 switch`, and
with `memory_links`: the links to switches of this process ({port: [name, end]}). Two descriptors
are passed with the message: a Unix socket (SOCK_STREAM), and a file for the messages of the switch.

When the switch is ready, it writes the same line to its socket as `minip4 switch` prints. When the
switch ends, it writes the line `exit STATUS`. It reads two commands from the socket: the line `end`
(drain queues and write counters), and the line `kill`. If the other end closes the socket, the
switch is killed. The process ends when FD is closed and no switch runs.

The switches share one thread for their P4Runtime servers, and one thread per CPU for their frames.
If the process crashes in the code of a switch, it writes the device ID of the switch to stderr.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import resource
import socket
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TextIO

from minip4 import cli
from minip4.errors import Minip4Error
from minip4.ports.driver import Workers
from minip4.runtime.switch.cli import set_program, switch_options
from minip4.runtime.switch.process import Switch, allow_open_files, preload_sanitizer

PR_SET_NAME = 15  # <sys/prctl.h>
MESSAGE_SIZE = 1 << 20  # bytes, enough for the options of 500 ports
COMMANDS_SIZE = 4096
MAX_THREADS = 64  # for switches that start or stop, which mostly wait for the kernel
USAGE_STATUS, CRASH_STATUS = 2, 1


async def serve(channel: socket.socket, interfaces: int, *, is_sanitized: bool) -> None:
    """Run switches until the other end closes the channel and all switches have ended."""
    workers = Workers(len(os.sched_getaffinity(0)), interfaces=interfaces)
    if not is_sanitized:  # AddressSanitizer has its own report
        workers.report_crashes()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(MAX_THREADS))
    tasks: set[asyncio.Task[None]] = set()
    is_closed = asyncio.Event()

    def receive() -> None:
        message, descriptors, flags, _ = socket.recv_fds(channel, MESSAGE_SIZE, 2)
        if flags & socket.MSG_CTRUNC:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            _end(f"minip4: too many open files; raise their limit, which is {limit} (ulimit -n)")
        if not message:
            loop.remove_reader(channel)
            is_closed.set()
            return
        task = loop.create_task(_run(json.loads(message), descriptors, workers))
        tasks.add(task)
        task.add_done_callback(finish)

    def finish(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if (error := task.exception()) is not None:  # the status of the switch is unknown
            _end("".join(traceback.format_exception(error)))

    loop.add_reader(channel, receive)
    await is_closed.wait()
    await asyncio.gather(*tasks)
    workers.close()


def _end(problem: str) -> NoReturn:
    """End the process and all its switches."""
    print(problem, file=sys.stderr, flush=True)
    os._exit(CRASH_STATUS)


async def _run(message: dict[str, Any], descriptors: list[int], workers: Workers) -> None:
    """Run a switch; write its exit status."""
    with (
        contextlib.suppress(ConnectionError),  # the other end is closed
        socket.socket(fileno=descriptors[0]) as connection,
        connection.makefile("w") as output,
        open(descriptors[1], "w", buffering=1) as log,
    ):
        status = await _run_switch(message, workers, connection, output, log)
        print(f"exit {status}", file=output, flush=True)


async def _run_switch(
    message: dict[str, Any], workers: Workers, connection: socket.socket, output: TextIO,
    log: TextIO,
) -> int:  # fmt: skip
    try:
        with contextlib.redirect_stderr(log):
            args = cli.parse(["switch", *message["arguments"]])
        set_program(args)
        links = {int(port): (name, end) for port, (name, end) in message["memory_links"].items()}
        switch = Switch(switch_options(args), workers, memory_links=links, output=output, log=log)
        with _commands(connection, switch):
            return await switch.run()
    except SystemExit as error:
        return int(error.code or 0)
    except Minip4Error as error:
        print(f"minip4 switch: error: {error}", file=log)
        return USAGE_STATUS
    except Exception:  # the other switches continue
        traceback.print_exc(file=log)
        return CRASH_STATUS


@contextlib.contextmanager
def _commands(connection: socket.socket, switch: Switch) -> Iterator[None]:
    """Obey the commands for a switch."""
    loop = asyncio.get_running_loop()

    def receive() -> None:
        try:
            commands = connection.recv(COMMANDS_SIZE)
        except ConnectionResetError:  # the other end has not read all output
            commands = b""
        if not commands:
            loop.remove_reader(connection)
        switch.request_end(is_killed=commands != b"end\n")

    loop.add_reader(connection, receive)
    try:
        yield
    finally:
        loop.remove_reader(connection)


if __name__ == "__main__":
    is_sanitized = "--sanitize" in sys.argv
    if is_sanitized:
        preload_sanitizer()
    allow_open_files()
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"minip4", 0, 0, 0)  # name of the process in ps and top
    descriptor, interfaces = map(int, sys.argv[1:3])
    asyncio.run(serve(socket.socket(fileno=descriptor), interfaces, is_sanitized=is_sanitized))
