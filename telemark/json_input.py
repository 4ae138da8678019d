"""JSON that users or others wrote, with the place of each value: for one line where it is wrong.

`Document.load(path)["hosts"]["h1"]["ip"].text()` is a text, or raises TestbedError: file, place,
what is there, and what was expected.
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from telemark.errors import TestbedError
from telemark.topology.checks import NAME, NAMES

T = TypeVar("T")
Readers: TypeAlias = "Mapping[str, Callable[[Document], Any]]"

_SHOWN = 60  # characters of a value in an error
_MOST = 1e15  # of numbers that are not whole, so that none becomes endless
_MOST_NODES = 10_000  # hosts, and switches; no machine runs so many, and no run should begin to
_DIGITS = 20  # of a number in a text: Python refuses to read thousands


@dataclass(frozen=True)
class Document:
    """A value of a JSON file, and where it stands there, as in `hosts.h1.ip`."""

    path: Path
    where: str
    value: Any

    @classmethod
    def load(cls, path: Path) -> "Document":
        """A whole file. Raises TestbedError."""
        try:
            return cls(path, "", json.loads(path.read_text()))
        except json.JSONDecodeError as error:
            raise TestbedError(
                f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
            ) from None
        except UnicodeDecodeError:
            raise TestbedError(f"{path}: not JSON: it is no text") from None
        except OSError as error:
            raise TestbedError(f"cannot read {path}: {error.strerror}") from None
        except (RecursionError, ValueError):  # Python reads no number of thousands of digits
            raise TestbedError(f"{path}: nested too deep, or with a number too long") from None

    @property
    def place(self) -> str:
        """File and place, for an error."""
        return f"{self.path}: {self.where or 'all of it'}"

    def wrong(self, expected: str) -> NoReturn:
        """Say that this value is not what was expected."""
        shown = json.dumps(self.value)
        if len(shown) > _SHOWN:
            shown = f"{shown[:_SHOWN]}..."
        raise TestbedError(f"{self.place}: {shown}: expected {expected}")

    def __getitem__(self, key: str) -> "Document":
        """A value that has to be there."""
        found = self.get(key)
        if found is None:
            self.wrong(f"{key!r} in it")
        return found

    def get(self, key: str) -> "Document | None":
        """A value that may be there; null is nothing."""
        value = self.mapping().get(key)
        return None if value is None else self._part(f".{key}" if self.where else key, value)

    def items(self) -> Iterator[tuple[str, "Document"]]:
        """The keys and values of an object, in their order."""
        for key, value in self.mapping().items():
            yield key, self._part(f".{key}" if self.where else key, value)

    def nodes(self, taken: Collection[str] = ()) -> "dict[str, Document]":
        """An object whose keys are names of hosts or switches; others have those that are taken."""
        if len(self.mapping()) > _MOST_NODES:
            self.wrong(f"at most {_MOST_NODES}, and not {len(self.mapping())}")
        for name in self.mapping():
            if not NAME.fullmatch(name):
                self.wrong(f"{NAMES}, where there is {json.dumps(name)[:_SHOWN]}")
            if name in taken:
                self.wrong(f"names that no host has: {name} is one")
        return dict(self.items())

    def entries(self) -> "list[Document]":
        """The values of a list."""
        if not isinstance(self.value, list):
            self.wrong("a list")
        return [self._part(f"[{number}]", value) for number, value in enumerate(self.value)]

    def mapping(self) -> dict[str, Any]:
        """An object."""
        if not isinstance(self.value, dict):
            self.wrong("an object, {...}")
        return self.value

    def fields(self, readers: "Readers", required: Collection[str] = ()) -> dict[str, Any]:
        """What an object has of these, as they are read: it may have nothing else."""
        for key, value in self.items():
            if key not in readers:
                raise TestbedError(
                    f"{value.place}: nobody asks for it: expected one of {', '.join(readers)}"
                )
        for key in required:
            self[key]
        found = {key: self.get(key) for key in readers}
        return {key: readers[key](value) for key, value in found.items() if value is not None}

    def make(self, what: Callable[..., T], *args: Any, **fields: Any) -> T:
        """What is made of it; what its maker refuses is told with its place."""
        try:
            return what(*args, **fields)
        except (ValueError, TestbedError) as error:
            raise TestbedError(f"{self.place}: {error}") from None

    def one_of(self, choices: Mapping[str, T]) -> T:
        """What a text stands for."""
        if self.text() not in choices:
            self.wrong(f"one of {', '.join(choices)}")
        return choices[self.text()]

    def text(self) -> str:
        """A text."""
        if not isinstance(self.value, str):
            self.wrong("a text")
        return self.value

    def natural(self, most: int, least: int = 0) -> int:
        """A whole number from `least` to `most`; one in a text will do, as in "510"."""
        value = self.value
        if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.wrong(f"a whole number from {least} to {most}")
        return value

    def number(self) -> float:
        """A number from 0 to 1e15."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
            self.wrong(f"a number from 0 to {_MOST:g}")
        return value

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.wrong("true or false")
        return self.value

    def file_in(self, folder: Path) -> Path | None:
        """The file that this text names, as seen from a folder; None: there is none."""
        path = folder / self.text()
        with contextlib.suppress(OSError):  # a name may be too long, or lead through a file
            if path.is_file():
                return path
        return None

    def _part(self, step: str, value: Any) -> "Document":
        return Document(self.path, self.where + step, value)
