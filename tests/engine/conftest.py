"""With SANITIZE in the environment all C that tests build has sanitizers: see test_sanitized.py."""

import os

from minip4.engine import build

if "SANITIZE" in os.environ:
    plain = build._mode

    def sanitized(sanitize: bool) -> tuple[str, ...]:
        return plain(True)

    build._mode = sanitized
