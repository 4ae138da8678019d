"""pytest plugin that reruns tests whose run in real time was inconclusive.

An inconclusive run ends with status 2 and an error that contains LINE, which appears in the failure
of the test. During a rerun no other worker of pytest-xdist runs a test. Other failures cause no
rerun. The summary has a warning for each test that was rerun.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from _pytest import runner  # pytest_runtest_protocol is public, and what it is made of is not

LINE = "reduce the load on the machine"  # remedy in the errors of inconclusive runs
TRIES = 5
GATE, LOCK = Path(__file__).with_name("conftest.py"), Path(__file__)  # locked, not written
IS_WITHIN_A_TEST = "PYTEST_CURRENT_TEST" in os.environ  # which holds the locks already


class RanAgainWarning(pytest.PytestWarning):
    """A test's run was no verdict, so that it ran again."""


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test as pytest does, and again while it says that its machine disturbed it."""
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
    """Those that other tests share may hold the run that was disturbed: all will be new."""
    close = partial(item.session._setupstate.teardown_exact, None)
    call = pytest.CallInfo.from_call(close, "teardown")
    return item.ihook.pytest_runtest_makereport(item=item, call=call)


def is_no_verdict(reports: list[pytest.TestReport]) -> bool:
    """Return whether a test failed, and by nothing else than by what its machine did to it."""
    failures = [_words(report) for report in reports if report.failed]
    return bool(failures) and all(LINE in words for words in failures)


def _words(report: pytest.TestReport) -> str:
    """What failed, in its own words: not the lines of code around it, which may quote LINE."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(crash.message.split()) if crash else ""


@contextmanager
def _running(kind: int) -> Iterator[None]:
    """While this test runs: beside others (LOCK_SH), or alone (LOCK_EX) of those of this folder.

    Who wants to be alone shuts the gate first, or others that come and go would never let it in.
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
        finally:  # not by closing it: a child may have it open still
            fcntl.flock(file, fcntl.LOCK_UN)
