"""VS Code itself, as code-server in Chromium, driven by Playwright as a user drives it.

``./dev editors`` installs code-server into ``.vscode-test``; Chromium is the system's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from editor_parts import Place

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
INSTALLED = Path(os.environ.get("AISH_VSCODE_TEST", ROOT / ".vscode-test"))
NODE = INSTALLED / "node" / "node_modules" / "node" / "bin" / "node"
CODE_SERVER = INSTALLED / "server/node_modules/code-server/out/node/entry.js"

#: Seconds that anything may take on a loaded machine.
TIMEOUT = 90.0

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)

_SETTINGS = {
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "telemetry.telemetryLevel": "off",
    "security.workspace.trust.enabled": False,
    "chat.commandCenter.enabled": False,
    "git.enabled": False,
}


def missing() -> str | None:
    """Return what is missing for a test of VS Code; None for nothing."""
    if not (NODE.exists() and CODE_SERVER.exists()):
        return "code-server is not installed: ./dev editors"
    if chromium() is None:
        return "Chromium is not installed: apt-get install chromium"
    if not (EXTENSION / "node_modules").is_dir():
        return "the extension's packages are not installed: ./dev editors"
    return None


def chromium() -> str | None:
    """Return Chromium's path."""
    named = os.environ.get("CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("google-chrome")


def package(to: Path, *, wheel: bool = False) -> Path:
    """Build the extension's .vsix in the folder ``to``, with the wheel in it or without."""
    wheels = EXTENSION / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    if wheel:
        build = ["-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "-w"]
        subprocess.run([sys.executable, *build, str(wheels), str(ROOT)], check=True)
    made = to / "aish.vsix"
    npm = ["npm", "run", "--silent", "package", "--", "--out", str(made)]
    done = subprocess.run(npm, cwd=EXTENSION, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def other_extension(folder: Path, manifest: Mapping[str, Any], files: Mapping[str, str]) -> Path:
    """Build the .vsix of an extension that is not ours, in a new folder."""
    folder.mkdir()
    own = {"publisher": "test", "version": "1.0.0", "engines": {"vscode": "^1.93.0"}, **manifest}
    for name, text in {"package.json": json.dumps(own), **files}.items():
        (folder / name).write_text(text)
    made = folder / "made.vsix"
    vsce = EXTENSION / "node_modules" / ".bin" / "vsce"
    flags = ["--allow-missing-repository", "--skip-license", "--out", str(made)]
    subprocess.run([vsce, "package", *flags], cwd=folder, check=True, capture_output=True)
    return made


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Workbench:
    """A window of VS Code with the extension in it.

    Attributes:
        page: Playwright's page.
    """

    def __init__(
        self,
        profile: Path,
        folder: Path,
        environment: Mapping[str, str],
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._profile = profile
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._environment["PATH"] = f"{NODE.parent}:{self._environment['PATH']}"
        self._common = (
            *("--config", str(profile / "config.yaml")),
            *("--user-data-dir", str(profile / "data")),
            *("--extensions-dir", str(profile / "extensions")),
        )
        profile.mkdir(exist_ok=True)
        (profile / "config.yaml").touch()
        self._settings = dict(settings or {})
        self.set({})
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.page: Any = None

    def set(self, settings: Mapping[str, Any]) -> None:
        """Have the user's settings be these, beside those it was opened with."""
        settings = {**self._settings, **settings}
        # What may be set for a machine alone is read there: code-server is a remote one.
        for name, values in (("User", {**_SETTINGS, **settings}), ("Machine", dict(settings))):
            path = self._profile / "data" / name / "settings.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))

    def install(self, vsix: Path) -> None:
        """Install an extension into the profile."""
        argv = [str(NODE), str(CODE_SERVER), *self._common, "--install-extension", str(vsix)]
        done = subprocess.run(
            argv,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start code-server."""
        self._port = _free_port()
        argv = [
            *(str(NODE), str(CODE_SERVER), *self._common),
            *("--bind-addr", f"127.0.0.1:{self._port}", "--auth", "none", "--disable-telemetry"),
            *("--disable-update-check", "--disable-getting-started-override"),
        ]
        with (self._profile / "code-server.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self.until("code-server", self._is_up)

    def _is_up(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._port}/healthz"):
            return True
        return False

    def stop(self) -> None:
        """End code-server, and all that it has started."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            time.sleep(0.5)
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(TIMEOUT)
        self._process = None

    def load(self) -> None:
        """Open the folder, as after a reload of the window."""
        kind = "folder" if self._folder.is_dir() else "workspace"
        self.page.goto(f"http://127.0.0.1:{self._port}/?{kind}={self._folder}")
        self.page.locator(".monaco-workbench").wait_for()
        self.page.locator(".explorer-folders-view .monaco-list-row, .pane-body").first.wait_for()

    def until(self, what: str, condition: Callable[[], T]) -> T:
        """Wait until something is true, and return it."""
        end = time.monotonic() + TIMEOUT
        while not (found := condition()):
            assert time.monotonic() < end, f"waited for: {what}"
            if self.page is not None:
                self.page.wait_for_timeout(100)
            else:
                time.sleep(0.1)
        return found

    def command(self, title: str) -> None:
        """Run a command of the palette by its title; an extension's may not be there at once."""
        row = self.page.locator(".quick-input-list .monaco-list-row", has_text=title).first

        def is_run() -> bool:
            self.page.keyboard.press("F1")
            box = self.page.locator(".quick-input-widget input").first
            try:
                box.wait_for(timeout=3000)
                box.fill(f">{title}", timeout=3000)
                # What takes the focus closes the list.
                row.click(timeout=3000)
            except playwright.TimeoutError:
                # What has the focus may have gone meanwhile, and the key with it.
                with suppress(playwright.TimeoutError):
                    at = {"x": 200, "y": 10}
                    self.page.locator(".part.titlebar").click(position=at, timeout=3000)
                self.page.keyboard.press("Escape")
                return False
            return True

        self.until(f"the command {title}", is_run)

    def answer(self, text: str) -> None:
        """Type into the box that VS Code shows at the top, and press Enter."""
        box = self.page.locator(".quick-input-widget input").first
        box.wait_for()
        box.fill(text)
        self.page.keyboard.press("Enter")

    def choose(self, label: str) -> None:
        """Choose a row of the list that VS Code shows at the top; only those in sight are there."""
        rows = self.page.locator(".quick-input-list .monaco-list-row")
        rows.first.wait_for()
        self.page.locator(".quick-input-widget input").first.fill(label)
        rows.filter(has_text=label).first.click()

    def webview(self, name: str) -> Any:
        """Return the frame of a webview of ours: ``chat`` or ``context``."""

        def found() -> Any:
            for frame in self.page.frames:
                with suppress(playwright.Error):
                    if frame.query_selector(f'body[data-page="{name}"]') is not None:
                        return frame
            return None

        return self.until(f"the webview {name}", found)

    def chat(self) -> Chat:
        """Open the chat."""
        self.command("aish: Open the Chat")
        frame = self.webview("chat")
        frame.locator(".composer textarea").wait_for()
        return Chat(frame)

    def new_chat(self) -> Chat:
        """Open a chat in which nothing was said."""
        chat = self.chat()
        # Only now is there a chat, whose box and messages stay.
        chat.frame.locator(".composer .model").wait_for()
        chat.box.fill("")
        if chat.exchanges.count():
            self.command("aish: New Chat")
            chat.frame.locator(".welcome").wait_for()
        return chat

    def dialog(self) -> Any:
        """Return the modal dialog, once there is one."""
        found = self.page.locator(".monaco-dialog-box")
        found.wait_for()
        return found

    def press(self, label: str) -> None:
        """Press a button of a notification."""
        self.page.locator(".notification-toast a.monaco-button", has_text=label).first.click()


class Chat:
    """The chat's webview."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.box = frame.locator(".composer textarea")
        self.exchanges = frame.locator(".exchange")

    def ask(self, text: str, *, waits: bool = True) -> None:
        """Send a message; wait until what comes of it has ended."""
        before = self.exchanges.count()
        # VS Code may still be moving the focus, and what is filled in goes where that is.
        while self.box.input_value() != text:
            self.box.fill(text)
        self.frame.get_by_role("button", name="Send").click()
        self.exchanges.nth(before).wait_for()
        if waits:
            self.ended()

    def ended(self) -> None:
        """Wait until the last exchange has ended."""
        self.exchanges.last.locator(".busy").wait_for(state="detached")

    @property
    def last(self) -> str:
        """What the last exchange shows."""
        return str(self.exchanges.last.inner_text())


def servers(place: Place) -> list[int]:
    """Return the processes of the server that runs for a place."""
    names = "aish_lsp|bin/aish-lsp|tee -a"
    found = subprocess.run(["pgrep", "-f", names], capture_output=True, text=True, check=False)
    mine = []
    for pid in map(int, found.stdout.split()):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            program = Path(f"/proc/{pid}/exe").readlink().name
        except OSError:
            continue
        if place.environment["AISH_DATA_DIR"].encode() in environment and program != "node":
            mine.append(pid)
    return mine


@contextmanager
def opened(
    place: Place,
    profile: Path,
    vsix: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    several: Path | None = None,
    also: Sequence[Path] = (),
    installs: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Workbench]:
    """Open a place in VS Code, with the extension in a clean profile.

    It starts the place's server, unless it ``installs`` one of its own. ``several`` is a file that
    names the folders to open, where that is not the place's alone, ``also`` are more extensions.
    """
    # The PATH of VS Code is that of a login shell.
    program = place.programs / "aish-lsp"
    own = {} if installs else {"aish.server.command": [str(program)]}
    environment = {**place.environment, **(variables or {})}
    bench = Workbench(profile, several or place.folder, environment, {**own, **(settings or {})})
    if not (profile / "extensions").exists():
        for extension in (vsix, *also):
            bench.install(extension)
    bench.start()
    try:
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium(), args=list(_FLAGS))
            context = browser.new_context(
                viewport={"width": 1100, "height": 760}, reduced_motion="reduce"
            )
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            bench.page = context.new_page()
            bench.page.set_default_timeout(TIMEOUT * 1000)
            try:
                bench.load()
                yield bench
            except BaseException:
                with suppress(playwright.Error):
                    bench.page.screenshot(path=str(profile / "failed.png"))
                raise
            finally:
                bench.page = None
                browser.close()
    finally:
        bench.stop()
