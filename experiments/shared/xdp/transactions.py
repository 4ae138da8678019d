"""TCP's transactions of one byte each way over a connection that stays, as netperf's TCP_RR.

Each end is a process of its own, in the namespace that it is begun in, and ends with who began it.
"""

import os
import select
import socket
import subprocess
import sys
import time

PORT = 5001
CONNECT_S = 5  # at most


class End:
    """A process that serves at an address, or asks who serves there; close() ends it."""

    def __init__(self, role: str, address: str, core: int) -> None:
        """On a core, in this thread's namespace; returns when it is ready."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, role, address, str(core)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._read()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """It ends when its input does."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def connect(self) -> None:
        """Have a new connection; the old one is gone."""
        self._write("connect")
        self._read()

    def ask(self, seconds: float, *, after_s: float) -> None:
        """Begin with transactions, one after the other, in a while and for so long."""
        self._write(f"{after_s} {seconds}")

    def answered(self) -> float:
        """How many there were, a second."""
        return float(self._read())

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"a process of TCP ended: status {self._process.wait()}")
        return line


def _serve(address: str) -> None:
    """Answer each byte of the newest connection."""
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
    """False when it has ended: it would be ready for ever. The next one follows."""
    try:
        asked = connection.recv(1)
        connection.sendall(asked)
    except OSError:  # reset
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
    """A second; one that has no answer by the end does not count."""
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
    except ConnectionError as error:  # the other end has gone, or who began both
        sys.exit(f"{sys.argv[1]}: {error}")
