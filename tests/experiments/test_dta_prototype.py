"""The published DTA prototype: its model, its collector, and the cases of both translators.

The published programs are not part of the repository. Tests that need them run if the environment
variable DTA_PROTOTYPE names a folder with them.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scripts import faulty_program, module, run, samples
from virtual_networks import virtually

from collectors.roce.packets import BTH, RETH, AtomicETH, Op
from experiments.shared.dta import both_translators, prototype
from experiments.shared.dta.both_translators import OURS, PROTOTYPE, corrected, make_frames
from experiments.shared.dta.prototype_cases import (
    CASES,
    Finding,
    Result,
    Setting,
    Sizes,
    measure,
    random_keys,
    settings,
)
from telemark.session.run import Run

SIZES = Sizes(slots=256, reports=100, flows=20)
PARAMETERS = {"keys": 2, "increments": 1, "wrap": 4, "resync": 10, "repeated": 10}
FOLDER = os.environ.get("DTA_PROTOTYPE", "")
MAC = bytes.fromhex("b8cef6d212c7")

needs_programs = pytest.mark.skipif(
    not FOLDER, reason=f"DTA_PROTOTYPE is not set: needs a folder with {prototype.SOURCE}"
)


def measured(folder: Path, kind: str, side: str, programs: str = "", parameter: int = -1) -> Result:
    if parameter < 0:
        parameter = PARAMETERS.get(kind, 0)
    setting = Setting(kind, side, programs, SIZES, parameter)

    async def main(run: Run) -> Result:
        return await measure(setting, run)

    result: Result = virtually(folder, main)
    return result


def wrong(result: Result) -> list[str]:
    """Return the names of exact findings and of checks that are not as expected."""
    return [
        *(each.what for each in result.findings
          if each.panel != "success" and each.count != each.expected),
        *(check.name for check in result.checks if not check.passed),
    ]  # fmt: skip


@pytest.mark.parametrize("given", [(), ("--prototype", ".")])
def test_a_missing_folder_or_file_is_reported_with_its_source(given: tuple[str, ...]) -> None:
    done = run("dta_prototype", *given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("dta_prototype: error: argument --prototype: ")
    assert "https://github.com/jonlanglet/DTA (commit 6da6cb5)" in line


def test_frames_have_the_payloads_of_reports() -> None:
    payloads = [b"\x01\x00short", b"\x02\x00longer one", b"\x01\x00other"]
    found = [Ether(each) for each in make_frames(payloads, 40040, source="10.0.0.3")]
    assert [bytes(each[UDP].payload) for each in found] == payloads
    assert {(each[IP].src, each[IP].dst, each[UDP].dport) for each in found} == {
        ("10.0.0.3", "10.0.0.51", 40040)
    }
    rebuilt = [each.copy() for each in found]
    for each in rebuilt:
        del each[IP].len, each[IP].chksum, each[UDP].len
    assert [bytes(each) for each in rebuilt] == [bytes(each) for each in found]


def request(content: Packet, *, icrc: int | None = None) -> bytes:
    ends = Ether(src="b8:ce:f6:d2:13:26", dst="b8:ce:f6:d2:12:c7")
    ip = IP(src="10.0.0.101", dst="10.0.0.51", flags="DF")
    opcode = Op.FETCH_ADD if AtomicETH in content else Op.WRITE_ONLY
    bth = BTH(opcode=opcode, dqpn=0x100, psn=7, icrc=icrc)
    return bytes(ends / ip / UDP(sport=10000, chksum=0) / bth / content)


def test_the_icrc_of_a_write_is_corrected() -> None:
    content = RETH(va=1 << 32, rkey=5, length=8) / Raw(b"12345678")
    right = request(content)
    assert corrected(request(content, icrc=0), MAC, lengths=False) == right
    assert corrected(right, MAC, lengths=True) == right


def test_the_length_of_a_fetch_add_is_corrected() -> None:
    right = request(AtomicETH(va=1 << 32, rkey=5, swap=3))
    as_sent = bytearray(request(AtomicETH(va=1 << 32, rkey=5, swap=3) / Raw(b"sums"), icrc=0))
    as_sent[16:18] = (68).to_bytes(2, "big")
    as_sent[38:40] = (48).to_bytes(2, "big")
    assert corrected(bytes(as_sent), MAC, lengths=True) == right
    assert corrected(bytes(as_sent), MAC, lengths=False) != right


def test_all_copies_of_two_keys_collide_or_none_in_the_model_of_the_prototype() -> None:
    slots = prototype.key_slots(random_keys(200, 1)[:, 3], 2, 64)
    common = {
        len({*slots[:, one]} & {*slots[:, other]}) for one in range(200) for other in range(one)
    }
    assert common == {0, 2}


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_lost_keys_of_the_model_follow_the_law(copies: int) -> None:
    size = 1 << 12
    keys = random_keys(size, 2)[:, 3]
    memory = np.zeros(size, prototype.SLOT)
    prototype.write_keys(memory, keys, keys, copies)
    found = prototype.is_found(memory, keys, keys, copies).mean()
    assert found == pytest.approx(prototype.mean_success(1.0, copies), abs=0.03)


def test_a_lap_of_a_ring_has_one_batch_too_many() -> None:
    assert prototype.ring_slots(9, 3).tolist() == [0, 1, 2, 0, 0, 1, 2, 0, 0]


def test_postcards_cause_one_write_per_256() -> None:
    counts = [prototype.postcard_writes(count) for count in (0, 4, 5, 260, 261, 517)]
    assert counts == [0, 0, 1, 1, 2, 3]


def test_reports_are_rejected_after_a_gap_and_by_other_reporters() -> None:
    assert prototype.rejected_reports(number % 256 for number in range(600)) == 0
    assert prototype.rejected_reports([0, 1, 3, 4, 2, 3]) == 2
    assert prototype.rejected_reports([0, 1, 0, 2, 1, 3]) == 2


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind != "reporter"])
def test_telemark_has_no_fault(kind: str, tmp_path: Path) -> None:
    assert wrong(measured(tmp_path, kind, OURS)) == []


def test_a_fault_of_telemark_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = faulty_program(
        tmp_path, "append.p4", "batch.slot + 1 == batch.batches ? 0 : batch.slot + 1",
        "batch.slot == batch.batches ? 0 : batch.slot + 1", "dta/translator_plain.p4",
    )  # fmt: skip
    monkeypatch.setattr(both_translators, "PROGRAMS", {False: program})
    assert "Append, wrapped ring" in wrong(measured(tmp_path / "run", "wrap", OURS))


def findings() -> list[Finding]:
    """Return invented findings of each panel."""
    found = []
    for side in (PROTOTYPE, OURS):
        setting = Setting("keys", side, "", SIZES)
        for place in (1, 2):
            found += [
                setting.finding("success", "found", "keys", (50, 100), 0.5, parameter=place / 2),
                setting.finding("wrap", "lost", "entries", (place, 9), place, parameter=4 * place),
                setting.finding("resync", "lost", "reports", (place, 9), place, parameter=place),
            ]
        found += [
            setting.memory("Key-Write, N = 1", np.zeros(8), np.zeros(8)),
            setting.memory("Key-Write, N = 2", np.zeros(8), np.eye(1, 8)),
            setting.fault("a fault", "reports", (0 if side == OURS else 5, 10), 5),
        ]
    return found


def test_the_figure_has_a_row_per_primitive_and_per_fault() -> None:
    figure = module("dta_prototype").draw(findings())
    axes = figure.axes[-1]
    assert [each.get_text() for each in axes.get_yticklabels()] == [
        "Key-Write: wrong bytes", "a fault"
    ]  # fmt: skip
    drawn = {line.get_label(): list(line.get_xdata()) for line in axes.get_lines()}
    assert drawn[PROTOTYPE] == [2 / 128, 0.5]
    assert drawn[OURS] == [2 / 128, 0]


def test_counts_that_differ_from_the_law_are_found() -> None:
    make_checks = module("dta_prototype").make_checks
    right = [each for each in findings() if each.panel != "memory"]
    assert all(check.passed for check in make_checks(right))
    for index, each in enumerate(right):
        other = [*right[:index], replace(each, count=each.count - 40), *right[index + 1 :]]
        assert sum(not check.passed for check in make_checks(other)) == 1


@needs_programs
def test_memory_and_faults_are_as_expected(tmp_path: Path) -> None:
    done = run("dta_prototype", "--time", "virtual", "--quick", "--prototype", FOLDER,
               "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    assert {row["panel"] for row in samples(tmp_path)} == {
        "success", "memory", "faults", "wrap", "resync"
    }  # fmt: skip
    assert (tmp_path / "dta_prototype.png").stat().st_size > 10_000


@needs_programs
@pytest.mark.parametrize(
    ("kind", "text", "other", "said"),
    [
        ("keys", "memory_write_offset*KEYWRITE_RDMA_PAYLOAD_SIZE", "memory_write_offset*16",
         "Key-Write, N = 2"),
        ("increments", "hdr.atomic_eth.data = hdr.dta_keyincrement.counter",
         "hdr.atomic_eth.data = 1", "Key-Increment, lengths corrected"),
        ("lists", "output = head;\n\t\t\t\thead = head + A", "output = 0;\n\t\t\t\thead = head + A",
         "Append, 4 lists"),
        ("wrap", "head = 0; //Reset", "head = APPEND_BATCH_SIZE; //Reset", "lost entries"),
        ("resync", "counter = QP_RESYNC_PACKET_DROP_NUM", "counter = 1",
         "reports lost after one lost request"),
    ],
    ids=lambda value: value if value in CASES else "",
)  # fmt: skip
def test_another_translator_is_found(
    kind: str, text: str, other: str, said: str, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    shutil.copytree(FOLDER, programs)
    source = programs / prototype.TRANSLATOR
    assert source.read_text().count(text) == 1
    source.write_text(source.read_text().replace(text, other))
    assert said in wrong(measured(tmp_path / "run", kind, PROTOTYPE, str(programs)))


@needs_programs
@pytest.mark.parametrize("parameter", [0, 1])
@pytest.mark.parametrize("side", [PROTOTYPE, OURS])
def test_reports_of_the_published_reporter(side: str, parameter: int, tmp_path: Path) -> None:
    assert wrong(measured(tmp_path, "reporter", side, FOLDER, parameter)) == []


def test_both_sides_have_the_same_settings() -> None:
    chosen = settings("", SIZES, (1,), (4,), (10,))
    sides = [{(each.kind, each.parameter) for each in chosen if each.side == side}
             for side in (PROTOTYPE, OURS)]  # fmt: skip
    assert sides[0] == sides[1]
    assert {kind for kind, _ in sides[0]} == CASES.keys()
