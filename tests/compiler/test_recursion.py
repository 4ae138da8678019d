"""Programs with too much nesting are rejected, with a location."""

import re
from pathlib import Path

import pytest
from programs_to_run import compiled

from minip4.compiler.errors import P4Error

DEEP = "h.d.b"
for _ in range(60):
    DEEP = f"({DEEP}{' + h.d.c' * 80})"
NUMBERS = re.sub(r"h\.d\..", "8w1", DEEP)
CALLS = "".join(f"action a{n + 1}() {{ a{n}(); }}\n" for n in range(3000))

PLACES = {
    "in an assignment": ({"ingress": f"h.d.a = 1; {{ h.d.a = {DEEP}; }}"}, DEEP[1:-1]),
    "a condition": ({"ingress": f"h.d.a = 1; if ({DEEP} > 3) {{ h.d.a = 2; }}"}, f"{DEEP} > 3"),
    "no statement": ({"declarations": f"const bit<8> K = {NUMBERS};"}, NUMBERS[1:-1]),
    "calls": (
        {"locals": "action a0() { h.d.a = 1; }\n" + CALLS, "ingress": "h.d.a = 2; a3000();"},
        "a3000()",
    ),
}


@pytest.mark.parametrize("where", PLACES)
def test_the_error_points_to_the_start_of_too_deep_nesting(where: str, tmp_path: Path) -> None:
    parts, place = PLACES[where]
    with pytest.raises(P4Error, match="nested too deeply") as caught:
        compiled(tmp_path, **parts)
    assert caught.value.source.text == place
