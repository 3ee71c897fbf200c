"""A headless Chromium driven over its own pipe: what a reader sees and does, for the tests.

The protocol is Chrome DevTools' (https://chromedevtools.github.io/devtools-protocol/): JSON
messages, each ended by a zero byte, on the file descriptors 3 and 4 of the browser.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 60.0
# Nothing that would go out by itself, no sandbox where the tests run as root.
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-pipe",
)


def executable() -> str | None:
    """The browser's path, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A browser with one page; `console` and `requests` hold what that page said and fetched."""

    def __init__(self) -> None:
        path = executable()
        assert path is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, self._write = os.pipe()
        self._read, to_us = os.pipe()
        options = [*_OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # The shell gives the pipes the numbers that the browser expects.
        shell = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, path, *options],
            pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(from_us)
        os.close(to_us)
        self._buffer, self._last, self._session = b"", 0, None
        self.console: list[str] = []
        self.requests: list[str] = []
        pages = self.send("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in pages if one["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol → its result."""
        self._last += 1
        number = self._last
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return answer["result"]
            self._hear(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._read, 1 << 20)
            assert read, "the browser is gone"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.console.append(json.dumps(given["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded":
            self.console.append(given["entry"]["text"])
        elif event["method"] == "Runtime.consoleAPICalled":
            self.console.append(str([one.get("value") for one in given["args"]]))

    def open(self, page: Path | str) -> None:
        """Go to a file (or an address) and wait until it is there."""
        address = page.as_uri() if isinstance(page, Path) else page
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        result = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until the expression holds in the page."""
        end = time.monotonic() + PATIENCE_S
        while not self.ask(expression):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.02)

    def move(self, x: float, y: float) -> None:
        """Put the pointer there, in pixels of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button there."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press and release a key, by its name in KeyboardEvent.key."""
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, " ": 32}
        text = {"text": "\r" if key == "Enter" else key} if key in ("Enter", " ") else {}
        named = {"key": key, "windowsVirtualKeyCode": codes[key], **text}
        self.send("Input.dispatchKeyEvent", type="keyDown", **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def size(self, width: int, height: int = 900) -> None:
        """The window's size, as a phone or a screen has it."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip

    def media(self, kind: str = "", scheme: str = "light") -> None:
        """Paper ("print") or a screen, light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=kind, features=features)

    def scripts(self, *, on: bool) -> None:
        """Whether pages that are opened from now on may run scripts."""
        self.send("Emulation.setScriptExecutionDisabled", value=not on)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        taken = self.send("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        file.write_bytes(base64.b64decode(taken["data"]))
