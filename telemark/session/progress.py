"""Progress of a run: a live line if the output is a terminal, plain lines otherwise."""

from rich.console import Console
from rich.status import Status


class Progress:
    """Display of the progress; a context manager. update() and say() may be called at any time."""

    def __init__(self, console: Console | None = None, note: object = None) -> None:
        """`note` is displayed after the live line. The text of the note may change."""
        self._console = console or Console(highlight=False)
        self._note = note
        self._status: Status | None = None
        self._last = ""

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._status = self._console.status("starting", spinner="line")
            self._status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Remove the live line, so that other output can use the terminal."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def update(self, text: str) -> None:
        """Replace the text of the live line."""
        if self._status is None and text != self._last:
            self._console.print(text, markup=False)
        self._last = text
        self.refresh()

    def update_note(self, note: object) -> None:
        """Replace the note."""
        self._note = note
        self.refresh()

    def refresh(self) -> None:
        """Update the displayed note."""
        if self._status is not None:
            self._status.update(
                self._last if self._note is None else f"{self._last} ({self._note})"
            )

    def say(self, text: str) -> None:
        """Print a line that stays on the screen."""
        self._console.print(text, markup=False)
