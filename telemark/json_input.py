"""Reader of users' JSON files. Error messages contain positions in the file.

`Document.load(path)["hosts"]["h1"]["ip"].text()` returns a string, or raises TestbedError. The
error names the file, the position, the value and the expected value.
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

_MAX_SHOWN = 60  # maximum number of characters of a value in an error message
_MAX_NUMBER = 1e15  # maximum of a number; so computations with floats stay finite
_MAX_NODES = 10_000  # maximum number of hosts, and also of switches
# maximum digits of a number given as a string; int() rejects thousands of digits
_MAX_DIGITS = 20


@dataclass(frozen=True)
class Document:
    """Value in a JSON file, and its path there, e.g. `hosts.h1.ip`."""

    path: Path
    where: str
    value: Any

    @classmethod
    def load(cls, path: Path) -> "Document":
        """Read a file. Raises TestbedError."""
        try:
            return cls(path, "", json.loads(path.read_text()))
        except json.JSONDecodeError as error:
            raise TestbedError(
                f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
            ) from None
        except UnicodeDecodeError:
            raise TestbedError(f"{path}: not JSON: not UTF-8 text") from None
        except OSError as error:
            raise TestbedError(f"cannot read {path}: {error.strerror}") from None
        # Python raises ValueError for a number with thousands of digits
        except (RecursionError, ValueError):
            raise TestbedError(f"{path}: nested too deeply, or a number is too long") from None

    @property
    def place(self) -> str:
        """File and path of the value, for error messages."""
        return f"{self.path}: {self.where or 'top level'}"

    def wrong(self, expected: str) -> NoReturn:
        """Raise TestbedError for an unexpected value."""
        shown = json.dumps(self.value)
        if len(shown) > _MAX_SHOWN:
            shown = f"{shown[:_MAX_SHOWN]}..."
        raise TestbedError(f"{self.place}: {shown}: expected {expected}")

    def __getitem__(self, key: str) -> "Document":
        """Return a required member of an object."""
        found = self.get(key)
        if found is None:
            self.wrong(f"an object with {key!r}")
        return found

    def get(self, key: str) -> "Document | None":
        """Return an optional member of an object; None if missing or null."""
        value = self.mapping().get(key)
        return None if value is None else self._part(f".{key}" if self.where else key, value)

    def items(self) -> Iterator[tuple[str, "Document"]]:
        """Yield the keys and values of an object in order."""
        for key, value in self.mapping().items():
            yield key, self._part(f".{key}" if self.where else key, value)

    def nodes(self, taken: Collection[str] = ()) -> "dict[str, Document]":
        """Return an object whose keys are node names. Raises TestbedError for names in `taken`."""
        if len(self.mapping()) > _MAX_NODES:
            self.wrong(f"at most {_MAX_NODES} nodes, got {len(self.mapping())}")
        for name in self.mapping():
            if not NAME.fullmatch(name):
                self.wrong(f"{NAMES}, got {json.dumps(name)[:_MAX_SHOWN]}")
            if name in taken:
                self.wrong(f"names of switches, but {name} is a host")
        return dict(self.items())

    def entries(self) -> "list[Document]":
        """Return the values of a list."""
        if not isinstance(self.value, list):
            self.wrong("a list")
        return [self._part(f"[{number}]", value) for number, value in enumerate(self.value)]

    def mapping(self) -> dict[str, Any]:
        """Return an object as a dict."""
        if not isinstance(self.value, dict):
            self.wrong("an object, {...}")
        return self.value

    def fields(self, readers: "Readers", required: Collection[str] = ()) -> dict[str, Any]:
        """Read each member of an object with the reader of its key.

        Reject keys that have no reader.
        """
        for key, value in self.items():
            if key not in readers:
                raise TestbedError(
                    f"{value.place}: unknown key; expected one of {', '.join(readers)}"
                )
        for key in required:
            self[key]
        found = {key: self.get(key) for key in readers}
        return {key: readers[key](value) for key, value in found.items() if value is not None}

    def make(self, factory: Callable[..., T], *args: Any, **fields: Any) -> T:
        """Call a factory. If it fails, the error names the position of this value."""
        try:
            return factory(*args, **fields)
        except (ValueError, TestbedError) as error:
            raise TestbedError(f"{self.place}: {error}") from None

    def one_of(self, choices: Mapping[str, T]) -> T:
        """Return the choice whose name is this string."""
        if self.text() not in choices:
            self.wrong(f"one of {', '.join(choices)}")
        return choices[self.text()]

    def text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            self.wrong("a string")
        return self.value

    def natural(self, maximum: int, minimum: int = 0) -> int:
        """Return a whole number in a range. A string such as "510" is also accepted."""
        value = self.value
        if isinstance(value, str) and value.isdecimal() and len(value) <= _MAX_DIGITS:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            self.wrong(f"a whole number from {minimum} to {maximum}")
        return value

    def number(self) -> float:
        """Return a number from 0 to 1e15."""
        value = self.value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= _MAX_NUMBER:
            self.wrong(f"a number from 0 to {_MAX_NUMBER:g}")
        return value

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            self.wrong("true or false")
        return self.value

    def file_in(self, folder: Path) -> Path | None:
        """Return the file with this name, relative to a folder; None if there is no such file."""
        path = folder / self.text()
        with contextlib.suppress(OSError):  # e.g. the name is too long
            if path.is_file():
                return path
        return None

    def _part(self, step: str, value: Any) -> "Document":
        return Document(self.path, self.where + step, value)
