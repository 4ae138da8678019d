"""The engine's tests once more, with AddressSanitizer and UBSan in the C."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = ("test_parser.py", "test_packet_path.py", "test_externs.py", "test_tables.py",
         "test_traffic.py", "test_expressions.py", "test_trace.py", "test_virtual.py")  # fmt: skip


def test_no_test_of_the_engine_reads_or_writes_what_it_must_not() -> None:
    asan = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()  # fmt: skip
    environment = {
        **os.environ,
        "SANITIZE": "1",
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own, at exit
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               *(str(HERE / name) for name in TESTS)]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
