"""With P4_SWITCH in the environment, the tests need a network namespace: see tests/peers."""

import os
from contextlib import ExitStack

from wire import namespace, run

if "P4_SWITCH" in os.environ:
    entered = ExitStack()
    entered.enter_context(namespace())
    run("ip link set dev lo up")
