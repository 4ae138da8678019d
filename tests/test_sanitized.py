"""Runs the tests of C code again, with AddressSanitizer and UBSan in all C code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOMS = ("collectors", "engine", "link", "ports", "simulator", "stf", "tna", "wire")
ELSEWHERE = {
    "dta",  # a folder of tests that run no C code of their own
    "test_hostile.py",  # it uses sanitizers itself
    "test_int_clocks.py",
    "test_int_collector.py",  # its C code runs in separate processes
    "test_int_databases.py",
    "test_int_dissector.py",
    "test_int_end_to_end.py",
    "test_int_export.py",
    "test_int_process.py",
    # These use results of C code that the tests of the decoder and of the index cover.
    "test_int_store.py",
    "test_ioam_dissector.py",
    "test_ioam_options.py",  # it runs no C code
    "test_ioam_store.py",
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
    "test_roce_rxe.py",  # runs in a virtual machine
    "test_roce_rxe_switch.py",
    "test_roce_work_partition.py",
    "test_thread_races.py",  # uses another sanitizer
    "test_tna_network.py",  # its C code runs in separate processes
    "test_widths.py",  # runs little or no C code
    "test_unmapping.py",  # code with sanitizers stays mapped
}
# The first test sends two million packets on the same path as other tests of simulator/. The second
# one sends a packet through 30,000 rounds, where other tests use a few.
LONG = (
    "simulator/test_virtual.py::test_queueing_delay_is_that_of_md1",
    "stf/test_stf.py::test_an_endless_recirculation_has_a_trace_from_its_start",
)


@pytest.mark.parametrize("room", ROOMS)
def test_tests_of_c_code_pass_with_sanitizers(room: str) -> None:
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
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself has leaks at exit
    }
    left_out = (f"--deselect={HERE.name}/{long}" for long in LONG)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
               # with captured output, the report of a sanitizer would be lost
               "-s",
               *left_out, *map(str, sorted(tests))]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


def test_these_tests_begin_first(request: pytest.FixtureRequest) -> None:
    """The tests of this file start first, because they take longest.

    Only tests that should stay on one worker start earlier.
    """
    names = [*dict.fromkeys(item.path.name for item in request.session.items)]
    assert {*names[: names.index(Path(__file__).name)]} <= {"test_roce_rxe.py", "test_vm.py"}
