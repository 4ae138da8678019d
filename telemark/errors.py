"""Errors that are reported to the user in one line."""

IDLE_MACHINE = "reduce the load on the machine"  # tests/rerun_inconclusive.py looks for it


class TestbedError(Exception):
    """Mistake of the user, or unsuitable environment: place, problem and remedy; exit status 2."""

    __test__ = False  # not a test class of pytest


class InvalidRunError(TestbedError):
    """Inconclusive run: its measurements are not usable because of `problem`.

    In real time the load on the machine may be the cause: exit status 2, with a remedy. In virtual
    time, and if hosts rejected malformed frames, it becomes a FailedRunError.
    """

    def __init__(self, problem: str, remedy: str = IDLE_MACHINE) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self._remedy = remedy

    def __str__(self) -> str:
        return f"run invalid: {self.problem}; {self._remedy}"


class FailedRunError(TestbedError):
    """The network under test prevented the measurement: exit status 1."""
