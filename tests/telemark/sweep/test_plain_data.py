"""Results of runs as plain data return unchanged, or an error names the field."""

import enum
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytest

from telemark.errors import TestbedError
from telemark.sweep.plain_data import NotPlainDataError, dump, load


class Colour(enum.Enum):
    RED = (1, 0)


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Found:
    delays: list[Any]
    by_name: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def count(self) -> int:
        return len(self.delays)

    class Inner(NamedTuple):
        number: int


PLAIN = [
    None, True, 2**80, -0.0, float("inf"), "\ud800 é", b"\0\xff", range(3, 9, 2), [1, [2.5]],
    (1, (2,)), {3, 4}, frozenset(["a"]), {(1, 2): "x", None: [Colour.RED]}, Counter("abb"),
    Point(1, 0.1 + 0.2), Found.Inner(7), Found([Point(1, 2)], {"a": Found([])}),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_values_come_back_as_they_were(value: object) -> None:
    back = load(dump(value, "run"))
    assert back == value
    assert (type(back), repr(back)) == (type(value), repr(value))


def test_arrays_and_numpy_scalars_come_back_with_their_types() -> None:
    records = np.zeros((2, 3), [("at", "<u8"), ("name", "S4", (2,))])
    records["at"] = 2**63
    for array in (records, np.arange(6).reshape(2, 3).T, np.array(7), np.array(["é"])):
        back = load(dump([array, array], "run"))
        assert (back[0].dtype, back[0].shape) == (array.dtype, array.shape)
        assert (back[0] == array).all()
        assert back[0] is back[1]  # the object is stored once
        assert back[0].flags.writeable
    for scalar in (np.float64(0.1), np.float32(0.1), np.int8(-3), np.uint64(2**63), np.bool_(True)):
        back = load(dump(scalar, "run"))
        assert (type(back), back) == (type(scalar), scalar)


def test_what_a_property_has_cached_is_left_out() -> None:
    found = Found([1, 2])
    assert found.count == 2
    assert "count" not in vars(load(dump(found, "run")))


def grown() -> Found:
    found = Found([])
    object.__setattr__(found, "more", 1)
    return found


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def of_a_function() -> object:
    class Local(NamedTuple):
        x: int

    return Local(1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Found([1, {"case": (2, len)}]), "run.delays[1]['case'][1]: a builtin_function_or_method "),
        (Found([], {"x": np.array([None])}), "run.by_name['x']: an array of Python objects "),
        ({object: 1}, "key <class 'object'> of run: a type "),
        (Point(1, 1j), "run.y: a complex "),
        (grown(), "run.more: no field of the dataclass "),
        (of_a_function(), "run: of_a_function.<locals>.Local, which is not a class of a module, "),
        (endless(), "run: nested too deeply, or contains itself; "),
    ],
)
def test_an_error_names_the_field_that_is_no_plain_data(value: object, words: str) -> None:
    with pytest.raises(TestbedError) as refused:
        dump(value, "run")
    assert str(refused.value).startswith(words)
    assert "; a run of a sweep returns numbers, strings, " in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_makes_no_objects_but_of_plain_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemark.sweep.plain_data._name", lambda *_: "subprocess:Popen")
    for value in (Found([]), Point(1, 2), Colour.RED):
        with pytest.raises(NotPlainDataError, match="of Popen"):
            load(dump(value, "run"))
    monkeypatch.setattr("telemark.sweep.plain_data._name", lambda *_: "nowhere:Found")
    with pytest.raises(NotPlainDataError, match="no loaded module defines nowhere:Found"):
        load(dump(Found([]), "run"))
