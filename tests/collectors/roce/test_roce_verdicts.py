"""The software endpoint reacts to each packet as the list of verdicts says."""

import os

import numpy as np
import pytest
from arriving import frames
from requester import Answer, Session
from verdicts import BEFORE, LENGTH, PATH_MTU, Case, alike
from verdicts_bad import BAD
from verdicts_good import GOOD

from collectors.roce.endpoint import Peer
from collectors.roce.native import Reason
from collectors.roce.region import Region
from collectors.roce.softnic import Limits, SoftNic

ADDRESSES = {
    "v1": ("::ffff:10.0.0.2", "::ffff:10.0.0.1"),
    "v2": ("10.0.0.2", "10.0.0.1"),
    "v2_ipv6": ("fd00::2", "fd00::1"),
}
MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")
CASES = [(version, case) for case in (*GOOD, *BAD) for version in case.versions]


@pytest.mark.parametrize(
    ("version", "case"), CASES, ids=[f"{version}: {case.name}" for version, case in CASES]
)
def test_verdict(version: str, case: Case) -> None:
    own, peer_address = ADDRESSES[version]
    nic = SoftNic(own, mac=MACS[0], path_mtu=PATH_MTU, limits=Limits(16, case.receives),
                  sanitize="SANITIZE" in os.environ)  # fmt: skip
    region = Region(np.dtype("u1"), LENGTH)
    region.bytes[:] = np.frombuffer(BEFORE, np.uint8)
    domain = nic.register(region, case.region_access)
    peer = Peer(peer_address, qpn=0x123, psn=case.psn)
    target = nic.connect(domain, peer, transport=case.transport, access=case.access)
    session = Session(version, MACS[0], peer, MACS[1], target)
    for step in case.steps:
        before = nic.counts().refused
        replies = nic.receive(frames([step.request(session)]))
        reasons = [*(nic.counts().refused - before)]
        answers = [Answer.read(session, reply) for reply in replies]
        assert [*map(str, reasons)] == ([step.reason] if step.reason else [])
        assert alike(answers, step.answer)
    assert region.bytes.tobytes() == case.after()
    assert nic.completions() == case.completed(target.qpn)


def test_the_list_has_many_packets_of_every_kind() -> None:
    steps = [step for _, case in CASES for step in case.steps]
    assert sum(not step.reason for step in steps) >= 200
    assert sum(bool(step.reason) for step in steps) >= 200
    assert len({case.name for _, case in CASES}) == len({id(case) for _, case in CASES})
    missing = {reason.name for reason in Reason} - {step.reason for step in steps}
    assert missing == {"ACCEPTED", "MANAGED"}
