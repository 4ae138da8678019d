"""Source files, and the ranges of tokens, tree nodes and errors in them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class SourceFile:
    """The content of a source file. `path` is shown in error messages and BMv2's `source_info`."""

    path: str
    text: str
    is_system: bool = False  # core.p4 or v1model.p4, whose declarations are built in
    includes: list[SourceFile] = field(default_factory=list, repr=False)  # included directly
    _lines: list[str] = field(default_factory=list, repr=False)

    def line(self, number: int) -> str:
        """Return the text of line `number` (counted from 1), or "" after the end of the file."""
        if not self._lines:
            self._lines = self.text.split("\n")
        return self._lines[number - 1].rstrip("\r") if number <= len(self._lines) else ""


@dataclass(slots=True, frozen=True, eq=False)
class Source:
    """A range in one file.

    Lines and columns count from 1, and the end column is exclusive.
    """

    file: SourceFile
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file.path}:{self.line}:{self.column}"

    def __deepcopy__(self, memo: object) -> Source:
        return self

    @property
    def text(self) -> str:
        """Return the text as written. It may span several lines."""
        if self.line == self.end_line:
            return self.file.line(self.line)[self.column - 1 : self.end_column - 1]
        inner = [self.file.line(number) for number in range(self.line + 1, self.end_line)]
        first = self.file.line(self.line)[self.column - 1 :]
        return "\n".join([first, *inner, self.file.line(self.end_line)[: self.end_column - 1]])
