"""Datagrams of a port, and the times of callbacks, without a network."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minip4.simulator.shared import ARRIVAL
from telemark.apps.application import Receiver
from telemark.traffic.received import Datagrams


@pytest.mark.parametrize(("hold_us", "handed_over"), [(0, [4, 4, 3, 2]), (1000, [4, 4, 3])])
def test_what_comes_while_others_are_looked_at_is_held_anew(
    hold_us: float, handed_over: list[int]
) -> None:
    waiting = [4, 4, 3, 2, 0]  # datagrams per read; a read of fewer than 4 empties the socket
    sizes: list[int] = []
    socket: Any = SimpleNamespace(
        max_batch=4, take=lambda: (np.zeros(waiting.pop(0), ARRIVAL), b"")
    )
    host: Any = SimpleNamespace(received=0)
    receiver = Receiver(
        host, socket, Datagrams, lambda datagrams: sizes.append(len(datagrams)), hold_us
    )
    receiver.deliver()
    assert sizes == handed_over
    assert host.received == sum(handed_over)
