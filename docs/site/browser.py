"""A headless Chromium that shows pages, as long as a `with` block lasts.

It is told what to do by its DevTools protocol, in messages of JSON over a pipe: that needs no port and no library.
"""

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any, Self

_NAMES = ("chromium", "google-chrome")  # Ubuntu's chromium-browser only says how to install a snap
_OPTIONS = (
    *("--headless", "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run", "--disable-gpu"),
    *("--no-sandbox", "--disable-dev-shm-usage"),  # for root, and in a container
    *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"),  # the pages are files
)
_KEY_CODES = {"Tab": 9, "Enter": 13}
_KEY_TEXTS = {"Tab": "", "Enter": "\r"}


def program() -> str | None:
    """The path of Chromium or Chrome; None where neither is installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """One window of a browser.

    Args:
        path: the program.

    Attributes:
        events: what the browser has said since it began to open the page, as the protocol has it.
    """

    def __init__(self, path: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._path = path
        self._numbers = itertools.count()
        self._heard = b""
        self._window: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # It reads messages from descriptor 3 and writes to 4.
        pipes = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
        self._process = subprocess.Popen(
            ["sh", "-c", pipes, "sh", self._path, *_OPTIONS, f"--user-data-dir={self._profile.name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": self._profile.name},
            start_new_session=True,
        )
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._window = {"sessionId": attached["sessionId"]}
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self.call("Page.setLifecycleEventsEnabled", enabled=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        with contextlib.suppress(BrokenPipeError), self._process:
            pass
        self._profile.cleanup()

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Calls a method of the protocol; what it refuses is a RuntimeError."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._window}
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while (answer := self._next()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            if not (more := self._process.stdout.read1()):
                raise RuntimeError(f"{self._path} has ended")
            self._heard += more
        message, _, self._heard = self._heard.partition(b"\0")
        return json.loads(message)

    def show_as(self, width: int, height: int, *, dark: bool) -> None:
        """Gives the window a size in pixels, and a reader who wants pages dark, or light."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Opens a page, with all that it needs."""
        with self.loading():
            if error := self.call("Page.navigate", url=address).get("errorText"):
                raise RuntimeError(f"{address}: {error}")

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Waits at its end for the page to which the block leads."""
        self.events.clear()
        yield
        while not any(event["params"].get("name") == "load" for event in self.events):
            self.events.append(self._next())

    def press(self, key: str) -> None:
        """Presses and releases a key: "Tab", "Enter" or a character."""
        pressed = {"key": key, "windowsVirtualKeyCode": _KEY_CODES.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=_KEY_TEXTS.get(key, key), **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript, or of its promise, as where a user has clicked."""
        given = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **given)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def errors(self) -> list[str]:
        """What has gone wrong on the page since it began to open: in its scripts, or with files that it needs."""
        found = []
        for event in self.events:
            said = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and said["entry"]["level"] == "error":
                found.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        return found

    def picture(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])
