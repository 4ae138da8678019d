"""Tests of what is written in C once more, with AddressSanitizer and UBSan in all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOMS = ("collectors", "engine", "link", "ports", "simulator", "stf", "wire")
ELSEWHERE = {
    "dta",  # a folder: has no C of its own
    "test_hostile.py",  # has sanitizers by itself
    "test_int_clocks.py",
    "test_int_collector.py",  # its C runs in processes of its own
    "test_int_dissector.py",
    "test_int_end_to_end.py",
    "test_int_export.py",
    "test_int_process.py",
    "test_int_store.py",  # what others do with what test_int_decoder.py and test_int_index.py find
    "test_limits.py",
    "test_reader.py",
    "test_roce_application.py",
    "test_roce_bypass.py",
    "test_roce_raw_socket_nic.py",
    "test_roce_exchange.py",
    "test_roce_connection_manager.py",
    "test_roce_packets.py",
    "test_roce_persistence.py",
    "test_roce_region.py",
    "test_roce_rxe.py",  # a virtual machine's
    "test_roce_rxe_switch.py",
    "test_roce_work_partition.py",
    "test_thread_races.py",  # has another sanitizer
    "test_widths.py",  # run no C, or hardly any
    "test_unmapping.py",  # what has sanitizers stays mapped
}
# Two million packets on the way that others of simulator/ take, too; and 30,000 turns of a packet,
# of which others take a few.
LONG = (
    "simulator/test_virtual.py::test_queueing_delay_is_that_of_md1",
    "stf/test_stf.py::test_a_packet_that_goes_round_for_ever_is_told_from_its_start",
)


@pytest.mark.parametrize("room", ROOMS)
def test_no_test_of_what_is_in_c_reads_or_writes_what_it_must_not(room: str) -> None:
    tests = [
        path
        for path in (HERE / room).rglob("test_*.py")
        if not ELSEWHERE & {path.name, path.parent.name}
    ]
    asan = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()  # fmt: skip
    environment = {
        **os.environ,
        "SANITIZE": "1",
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own, at exit
    }
    left_out = (f"--deselect={HERE.name}/{long}" for long in LONG)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
               "-s",  # else a sanitizer's report ends with the process that has captured it
               *left_out, *map(str, sorted(tests))]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


def test_these_tests_begin_first(request: pytest.FixtureRequest) -> None:
    """The longest of all; but for what should not be split between workers."""
    names = [*dict.fromkeys(item.path.name for item in request.session.items)]
    assert {*names[: names.index(Path(__file__).name)]} <= {"test_roce_rxe.py", "test_vm.py"}
