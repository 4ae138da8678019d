"""Errors of the testbed that its user sees as one clear line."""

IDLE_MACHINE = "leave the machine more idle"


class TestbedError(Exception):
    """What the user or the environment got wrong, where, and how to mend it: exit status 2."""

    __test__ = False  # or pytest takes the name for a test class


class InvalidRunError(TestbedError):
    """A run that measured nothing that can be judged; `problem` is what was found.

    In real time load on the machine may be the cause: exit status 2, with a remedy. In virtual time
    it cannot be, and neither where hosts refused malformed frames: see FailedRunError.
    """

    def __init__(self, problem: str, remedy: str = IDLE_MACHINE) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self._remedy = remedy

    def __str__(self) -> str:
        return f"run invalid: {self.problem}; {self._remedy}"


class FailedRunError(TestbedError):
    """The network under test kept the run from being measured: exit status 1."""
