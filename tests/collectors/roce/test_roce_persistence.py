"""Acknowledged data survive SIGKILL of the collector, in a file that is reopened."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
from requester import Answer, Session, write

from collectors.roce.endpoint import Peer, Target, Transport
from collectors.roce.region import Region

HERE = Path(__file__).parent
COUNT, KILLED_AFTER, BASE = 400, 150, 1 << 32  # all requests and answers fit into the pipes
MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")


def started(path: Path, psn: int) -> tuple[subprocess.Popen[bytes], Session]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "persistent_collector.py"), str(path), str(COUNT), str(psn)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE.parents[2],
        env={**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parents[2]}"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.read(5) == b"ready"
    target = Target("10.0.0.2", 0x100, psn, 0x1234, BASE, 8 * COUNT, 1024, Transport.RC)
    return process, Session("v2", MACS[0], Peer("10.0.0.1", 7, psn), MACS[1], target)


def frame(session: Session, number: int, value: int) -> bytes:
    built = write(number, struct.pack("<Q", value), 8 * value)(session)
    return struct.pack("<I", len(built)) + built


def acknowledged(process: subprocess.Popen[bytes], session: Session) -> int | None:
    """Return the PSN of the next ACK."""
    assert process.stdout is not None
    head = process.stdout.read(4)
    if len(head) < 4:
        return None
    answer = Answer.read(session, process.stdout.read(*struct.unpack("<I", head)))
    assert answer.syndrome == 0x1F
    return answer.psn


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "records"
    process, session = started(path, psn=10)
    frames = [frame(session, number, number) for number in range(COUNT)]
    assert process.stdin is not None
    process.stdin.write(b"".join(frames[:-1]))
    process.stdin.flush()
    last = -1
    while (psn := acknowledged(process, session)) is not None:
        last = psn
        if psn == KILLED_AFTER:
            process.kill()  # while the process is working
    process.stdin.close()
    process.wait()
    found = Region(np.dtype("<u8"), COUNT, path).records
    assert KILLED_AFTER <= last < COUNT - 1
    assert found[: last + 1].tolist() == [*range(last + 1)]

    process, session = started(path, psn=777)  # another queue pair, the same file
    with process:
        assert process.stdin is not None
        process.stdin.write(frame(session, 0, last + 1))
        process.stdin.close()
        assert acknowledged(process, session) == 0
    assert found[: last + 2].tolist() == [*range(last + 2)]
