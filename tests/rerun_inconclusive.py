"""pytest plugin that runs tests again if their run in real time was inconclusive.

An inconclusive run ends with status 2 and an error that contains LINE. The failure of its test
contains this error. While a test runs again, no other worker of pytest-xdist runs a test. Other
failures cause no rerun. The summary has a warning for each test that ran again.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

# pytest_runtest_protocol is public, but the functions that it calls are not
from _pytest import runner

LINE = "reduce the load on the machine"  # the remedy in errors of inconclusive runs
TRIES = 5
# locks of these files order the tests of all workers; their content does not matter
GATE, LOCK = Path(__file__).with_name("conftest.py"), Path(__file__)
IS_WITHIN_A_TEST = "PYTEST_CURRENT_TEST" in os.environ  # an outer test has the locks


class RanAgainWarning(pytest.PytestWarning):
    """A test ran more than once, because its earlier runs were inconclusive."""


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test as pytest does.

    Run it again if it reports that load on the machine disturbed it.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with _running(fcntl.LOCK_SH):
        reports = runner.runtestprotocol(item, nextitem=nextitem, log=False)
    tries = 1
    while tries < TRIES and is_no_verdict(reports):
        with _running(fcntl.LOCK_EX):
            closed = _close_fixtures(item)
            if closed.failed:
                reports.append(closed)
                break
            tries += 1
            reports = runner.runtestprotocol(item, nextitem=nextitem, log=False)
    if tries > 1:
        item.warn(RanAgainWarning(f"{item.nodeid} ran {tries} times: its machine disturbed it"))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _close_fixtures(item: pytest.Item) -> pytest.TestReport:
    """Close all fixtures that tests share, because they may contain results of the disturbed run.

    pytest then creates them again.
    """
    close = partial(item.session._setupstate.teardown_exact, None)
    call = pytest.CallInfo.from_call(close, "teardown")
    return item.ihook.pytest_runtest_makereport(item=item, call=call)


def is_no_verdict(reports: list[pytest.TestReport]) -> bool:
    """Return whether a test failed, and only because of load on the machine."""
    failures = [_words(report) for report in reports if report.failed]
    return bool(failures) and all(LINE in words for words in failures)


def _words(report: pytest.TestReport) -> str:
    """Return the messages of the failures without quoted code, because code may contain LINE."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(crash.message.split()) if crash else ""


@contextmanager
def _running(kind: int) -> Iterator[None]:
    """Lock for a running test.

    With LOCK_SH, other tests may run in parallel; with LOCK_EX, none may. A test that must run
    alone first locks GATE, at which other tests then wait. Otherwise, new tests could start all the
    time, and the test would never run.
    """
    if IS_WITHIN_A_TEST:
        yield
        return
    with ExitStack() as stack:
        with _locked(GATE, kind):
            stack.enter_context(_locked(LOCK, kind))
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    with path.open() as file:
        fcntl.flock(file, kind)
        try:
            yield
        finally:  # unlock explicitly, because a child may still have the file open
            fcntl.flock(file, fcntl.LOCK_UN)
