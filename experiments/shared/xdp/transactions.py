"""TCP transactions of one byte in each direction over a persistent connection (like TCP_RR).

TCP_RR is a test of netperf. Each end is a process that runs in the namespace in which it was
started. The process exits when its parent exits.
"""

import os
import select
import socket
import subprocess
import sys
import time

PORT = 5001
CONNECT_S = 5  # max time to connect


class End:
    """Server or client process for an address; close() stops it."""

    def __init__(self, role: str, address: str, core: int) -> None:
        """Start the process on a core, in the namespace of this thread; return when it is ready."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, role, address, str(core)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._read()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Stop the process by closing its input."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def connect(self) -> None:
        """Replace the connection by a new connection."""
        self._write("connect")
        self._read()

    def ask(self, seconds: float, *, after_s: float) -> None:
        """Start transactions `after_s` from now, for `seconds`."""
        self._write(f"{after_s} {seconds}")

    def answered(self) -> float:
        """Return the rate of the transactions that the last ask() started, in transactions/s."""
        return float(self._read())

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"TCP process exited with status {self._process.wait()}")
        return line


def _serve(address: str) -> None:
    """Reply to each byte of the newest connection."""
    with socket.create_server((address, PORT)) as listening:
        print(flush=True)
        connection = None
        while True:
            sockets = [sys.stdin, listening, *([connection] if connection else [])]
            ready, _, _ = select.select(sockets, [], [])
            if sys.stdin in ready:
                return
            if listening in ready:
                if connection:
                    connection.close()
                connection, _ = listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            elif connection and not _answer(connection):
                connection.close()
                connection = None


def _answer(connection: socket.socket) -> bool:
    """Reply to a byte; return False if the connection has been closed."""
    try:
        asked = connection.recv(1)
        connection.sendall(asked)
    except OSError:  # the peer has reset the connection
        return False
    return bool(asked)


def _ask(address: str) -> None:
    print(flush=True)
    connection = None
    for line in sys.stdin:
        if line == "connect\n":
            if connection:
                connection.close()
            connection = socket.create_connection((address, PORT), CONNECT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            print(flush=True)
        elif connection:
            after_s, seconds = map(float, line.split())
            time.sleep(after_s)
            print(_transactions(connection, seconds), flush=True)


def _transactions(connection: socket.socket, seconds: float) -> float:
    """Run transactions; return the rate of complete transactions."""
    began, count = time.perf_counter(), 0
    while (left := began + seconds - time.perf_counter()) > 0:
        connection.settimeout(left)
        try:
            connection.sendall(b"?")
            if not connection.recv(1):
                break
        except TimeoutError:
            break
        count += 1
    return count / seconds


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[3])})
    try:
        {"serve": _serve, "ask": _ask}[sys.argv[1]](sys.argv[2])
    except ConnectionError as error:  # the other end or the parent has exited
        sys.exit(f"{sys.argv[1]}: {error}")
