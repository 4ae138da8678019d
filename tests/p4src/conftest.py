"""With P4_SWITCH in the environment the tests need a network namespace: see tests/peers."""

import os
from collections.abc import Iterator

import pytest
from wire import namespace, run


@pytest.fixture(autouse=True, scope="session")
def _namespace() -> Iterator[None]:
    if "P4_SWITCH" not in os.environ:
        yield
        return
    with namespace():
        run("ip link set dev lo up")
        yield
