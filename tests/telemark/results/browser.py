"""Chromium without a window, controlled over a pipe by the Chrome DevTools Protocol."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Return the path of an installed browser, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """A page in the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = to_browser, os.fdopen(from_browser, "rb")
        self._last = 0
        self._session = ""
        self._waiting = b""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, page: Path | str, *, width: int, dark: bool = False) -> None:
        """Open a file or an address in a window of this width (CSS pixels), and wait for it."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=844,
                   deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        url = page if isinstance(page, str) else page.as_uri()
        self._call("Page.navigate", url=url)
        while not any(each["method"] == "Page.loadEventFired" for each in self._events):
            self._events.append(self._next())

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key. The caller gives its name, its Windows key code and its character."""
        for kind in ("keyDown", "keyUp"):
            written = text if kind == "keyDown" else ""
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=written,
                       windowsVirtualKeyCode=code)  # fmt: skip

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a screenshot (PNG)."""
        done = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(done["data"]))

    @property
    def parse_errors(self) -> list[str]:
        """Return the browser's errors and network requests since open()."""
        found = []
        for event in self._events:
            what = event["params"]
            if event["method"] == "Log.entryAdded":
                found.append(what["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                url = what["request"]["url"]
                found += [url] if not url.startswith(("file:", "data:")) else []
        return found

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        call = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            call["sessionId"] = self._session
        os.write(self._write, json.dumps(call).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            more = self._read.read1(1 << 20)
            assert more, "the browser went away"
            self._waiting += more
        message, _, self._waiting = self._waiting.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start a browser whose profile is in a folder.

    The browser reads commands from file descriptor 3 and writes responses to 4.
    """
    (their_read, our_write), (our_read, their_write) = os.pipe(), os.pipe()
    command = [
        program() or "", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
        "--disable-background-networking", f"--user-data-dir={folder}",
    ]  # fmt: skip
    # a shell moves the ends of the pipes to these descriptors
    script = f'exec 3<&{their_read} 4>&{their_write}; exec "$@"'
    process = subprocess.Popen(
        ["bash", "-c", script, "browser", *command], pass_fds=(their_read, their_write),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(their_read)
    os.close(their_write)
    try:
        yield Page(our_write, our_read)
    finally:
        os.close(our_write)  # this ends the browser
        process.wait(timeout=60)
