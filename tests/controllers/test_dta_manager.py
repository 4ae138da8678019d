"""`telemark dta` in virtual time: starts a system, sends its load, and queries its stores."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_dta_configuration import example

from telemark.cli import main

Telemark = Callable[..., tuple[int, str, str]]


@pytest.fixture
def telemark(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Telemark]:
    """Return a function that runs `telemark dta` and returns its status, output and errors."""
    before = [(number, signal.getsignal(number)) for number in
              (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]  # fmt: skip

    def run(content: object, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "small.json"
        path.write_text(json.dumps(content))
        status = main(["dta", str(path), "--out", str(tmp_path / "out"), *options])
        return status, *capfd.readouterr()

    yield run
    for number, handler in before:
        signal.signal(number, handler)


def small() -> dict[str, Any]:
    """Return the example with fewer reports, and room for all of them."""
    content = example()
    content["generators"]["h3"] |= {"count": 500}
    content["collectors"]["h2"]["paths"] |= {"rows": 64, "slots": 1 << 18}
    content["collectors"]["h2"]["values"] |= {"slots": 1 << 18}
    content["flows"][0] |= {"count": 20}
    return content


def rows_of(output: str) -> list[list[str]]:
    """Return the cells of tables."""
    return [[cell.strip() for cell in line.split("│")[1:-1]]
            for line in output.splitlines() if line.startswith("│")]  # fmt: skip


def test_a_system_is_brought_up_asked_and_asked_again(telemark: Telemark) -> None:
    status, output, errors = telemark(small(), "--time", "virtual")
    assert (status, errors) == (0, "")
    rows = rows_of(output)
    assert ["s2", "10.0.0.3 1", "translated", "500"] in rows
    found = {row[1]: [int(cell) for cell in row[2:]] for row in rows if row[0] == "h2"}
    for store in ("values", "counters", "events"):
        asked, right, _, empty = found[store]
        assert (right, empty) == (asked, 0)
        assert asked > 50
    assert found["events"][2] == 1  # the event that the switch reported
    asked, right, other, empty = found["paths"]
    assert right > 0.6 * asked > 20  # flows that share one of 64 rows evict each other
    assert other + empty == asked - right
    assert "h2 records 10.0.0.1:49153-10.0.0.3:5001/udp: 65538 (0x10002) " in output
    assert "h2 events 3: 1 entries, the last ones [467935991]" in output
    assert "h3: Sent(sent=500, resent=0, nacks=0, left=0, given_up=0" in output

    ask = (
        "--ask",
        "h2",
        "events",
        "3",
        "--ask",
        "h2",
        "values",
        "7",
        "--ask",
        "h2",
        "paths",
        "0x7",
    )
    assert telemark(small(), *ask) == (
        0, "h2 events 3: 1 entries, the last ones [467935991]\nh2 values 7: nothing\n"
           "h2 paths 0x7: nothing\n", "",
    )  # fmt: skip
    for asked_for, said in (
        (("no", "3"), "--ask h2 no: expected one of h2 values, h2 records"),
        (("events", "4"), "list 4: expected 0 to 3"),
        (
            ("values", "-1"),
            "key -1: expected a number of up to 128 bits, or a flow such as 10.0.0.1",
        ),
        (("values", "10.0.0.1:70000-10.0.0.2:1/udp"), "key 10.0.0.1:70000-10.0.0.2:1/udp: exp"),
    ):
        status, output, errors = telemark(small(), "--ask", "h2", *asked_for)
        assert (status, output) == (2, "")
        assert errors.startswith(f"telemark: error: {said}")
        assert errors.count("\n") == 1


def test_a_store_begins_empty_and_its_rate_is_kept(telemark: Telemark, tmp_path: Path) -> None:
    content = small()
    content["generators"]["h3"] |= {"mix": {"key-write": 1}, "count": 200, "retransmittable": False}
    content["collectors"]["h2"]["values"] |= {"requests_per_s": 1000, "burst": 10}
    left = tmp_path / "out" / "stores" / "h2.values"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of another length")
    _, output, _ = telemark(content, "--time", "virtual")
    rows = rows_of(output)
    (refused,) = (int(row[3]) for row in rows if row[2] == "too fast")
    asked, right, other, empty = next(map(int, row[2:]) for row in rows if row[1] == "values")
    assert (asked, other) == (200, 0)
    assert empty == refused > 150  # 5000 reports/s with two requests each exceed the rate
    assert right == 200 - refused


def test_what_cannot_be_ends_with_one_line(telemark: Telemark) -> None:
    content = small()
    content["translators"]["s2"] = []
    for options in ((), ("--ask", "h2", "events", "3")):
        status, output, errors = telemark(content, "--time", "virtual", *options)
        assert (status, output) == (2, "")
        assert 'translators: {"s2": []}: expected one translator of collector h2, not 0\n' in errors
        assert errors.count("\n") == 1
    status, _, errors = telemark(small(), "--time", "virtual", "--interactive")
    assert (status, errors) == (2, "telemark: error: --interactive needs --time real\n")
    status, _, errors = telemark(small(), "--ask", "h2", "events", "3")
    assert status == 2
    assert "h2.values: no such store file; run the system with this --out first\n" in errors
