"""The search for unset values visits each state or loop only a few times, not once per path."""

import pytest
from programs_to_check import check, program

from minip4.compiler.analysis.flow import Flow


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Replace some methods of Flow by methods that also count their calls."""
    counts: dict[str, int] = {}
    for name in ("parser_state", "assignment"):
        method = getattr(Flow, name)

        def counted(*arguments: object, name: str = name, method=method) -> object:
            counts[name] = counts.get(name, 0) + 1
            return method(*arguments)

        monkeypatch.setattr(Flow, name, counted)
    return counts


def test_a_state_is_looked_at_when_all_ways_to_it_are_known(looked_at: dict[str, int]) -> None:
    count = 30
    states = ["state start { transition s0; }"]
    for i in range(count):
        cases = "".join(f"{k}: s{j};" for k, j in enumerate(range(i + 1, i + 4)) if j < count)
        states.append(f"state s{i} {{ v{i} = 1; transition select(m.z) {{ {cases} _: accept; }} }}")
    variables = "".join(f"bit<8> v{i};" for i in range(count))
    check(program(states="\n".join(states), parser_local=variables))
    # each state is visited twice: to find the fixed point, and to report
    assert looked_at["parser_state"] == 2 * (count + 1)


def test_a_way_back_is_followed(looked_at: dict[str, int]) -> None:
    states = """state start { transition one; }
        state one { transition select(m.z) { 0: two; _: accept; } }
        state two { bit<8> x; m.x = x; transition one; }"""
    check(program(states=states))
    assert looked_at["parser_state"] <= 2 * 3 + 2  # `one` and `two` are visited once more


def nested(depth: int) -> str:
    body = "m.x = y;"
    for i in range(depth):
        body = (
            f"for (bit<8> i{i} = 0; i{i} < 3; i{i} = i{i} + 1) {{ bit<8> v{i};"
            f" if (m.x == {i}) {{ v{i} = 1; }} {body} m.x = v{i}; }}"
        )
    return f"bit<8> y; if (m.x == 1) {{ y = 2; }} {body}"


def test_the_analysis_of_nested_loops_takes_linear_time(looked_at: dict[str, int]) -> None:
    check(program(body=nested(5)))
    few = looked_at.pop("assignment")
    check(program(body=nested(10)))
    assert looked_at["assignment"] < 5 * few
