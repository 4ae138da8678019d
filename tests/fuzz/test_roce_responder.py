"""A short run of the RoCE responder's fuzzer, with AddressSanitizer and UBSan."""

import struct
import subprocess
from pathlib import Path

from requester import Session
from verdicts_bad import BAD
from verdicts_good import GOOD

import collectors
from collectors.roce import C_FOLDER
from collectors.roce.endpoint import Peer, Target
from collectors.roce.native import Reason
from minip4 import simulator
from minip4.native import build

HERE = Path(__file__).parent
COUNT = 60_000
RARE = 20  # the fuzzer must cause each outcome at least this often


def seeds() -> list[bytes]:
    """Return frames to mutate: requests from the lists of good and bad cases."""
    peer = {"v1": "10.0.0.1", "v2": "10.0.0.1", "v2_ipv6": "fd00::1"}
    own = {"v1": "10.0.0.2", "v2": "10.0.0.2", "v2_ipv6": "fd00::2"}
    found = []
    for case in (*GOOD[::3], *BAD[::3]):
        version = case.versions[len(found) % len(case.versions)]
        target = Target(own[version], 0x100, 5, 0x1000, 1 << 32, 8192, 1024, case.transport)
        session = Session(version, "02:00:00:00:00:02", Peer(peer[version], 7, 5),
                          "02:00:00:00:00:01", target)  # fmt: skip
        found += [step.request(session) for step in case.steps[:2]]
    return found


def test_no_frame_breaks_the_responder(tmp_path: Path) -> None:
    program = build.program(
        [HERE / "roce_responder.c", *sorted(C_FOLDER.glob("*.c"))],
        include=[C_FOLDER, collectors.C_FOLDER, simulator.C_FOLDER], sanitize=True,
    )  # fmt: skip
    path = tmp_path / "frames"
    path.write_bytes(b"".join(struct.pack("<I", len(each)) + each for each in seeds()))
    run = subprocess.run(
        [str(program), str(path), "1", str(COUNT)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    answered, *reasons = map(int, run.stdout.split())
    assert answered > COUNT // 10
    assert reasons[Reason.ACCEPTED] > COUNT // 10
    met = {reason.name: reasons[reason] for reason in Reason}
    assert {name for name, count in met.items() if count < RARE} == set(), met
