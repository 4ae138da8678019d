"""A stream of packets that the tests of statistics share."""

import pytest
from streams import Stream, stream_of


@pytest.fixture(scope="session")
def stream() -> Stream:
    return stream_of(20_000, 4000, 5)
