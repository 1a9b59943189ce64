"""The VS Code extension's chat: its first paint, 10,000 deltas, 1,000 messages.

``python tests/bench/bench_vscode.py`` needs what ``./dev editors`` installs. It prints, in
milliseconds, the longest task of the chat's page while a reply of 10,000 deltas comes, beside that
of the same page at rest in the same run: the machine's own noise.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for part in ("tests/editors", "tests/servers", "tests/lsp", "tests/kit"):
    sys.path.insert(0, str(ROOT / part))

from editor_parts import Place  # noqa: E402
from fault_server import Peer, Request, chunk_of, served  # noqa: E402
from vscode_parts import missing, opened, package  # noqa: E402

DELTAS = 10_000

WATCH = """() => {
  window.tasks = [];
  window.watcher?.disconnect();
  window.watcher = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.tasks.push(entry.duration);
  });
  window.watcher.observe({ type: "longtask" });
}"""

PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0"""

MANY = """(count) => {
  const text = ["Lists the files, with **all** of them.", "CMD: ls -la", "", "```sh", "make", "```",
    "- one", "- two", ""].join("\\n");
  const exchanges = Array.from({ length: count }, (_, at) => ({
    key: `k${at}`, turnId: null, prompt: `Question ${at}?`, state: "ended", model: "m",
    parts: [{ kind: "text", text, firstLine: 0 }], runs: {}, attached: [], finishReason: "stop",
    commands: [{ id: `c${at}`, text: "ls -la", line: 1, endLine: 1, source: "cmd",
      placeholders: [], risk: "safe", reasons: [] }],
    error: "", usage: null, replaces: false, isGoal: false, isPast: false, linesBefore: 0,
  }));
  const started = performance.now();
  window.dispatchEvent(new MessageEvent("message", { data: {
    kind: "chat", tabs: [], active: "s", exchanges, sendWith: "enter" } }));
  document.body.getBoundingClientRect();
  return performance.now() - started;
}"""


async def answer(request: Request, peer: Peer) -> None:
    """Reply with many small pieces: prose, lists, code, commands."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    await peer.head()
    for number in range(DELTAS):
        if number % 500 == 0:
            text = f"\n\n## Part {number}\n\n"
        elif number % 500 == 250:
            text = "\n\n```python\n"
        elif number % 500 == 499:
            text = "\n```\n"
        else:
            text = f"word{number} " if number % 12 else f"word{number}\n"
        await peer.event(chunk_of(text))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


def main() -> None:
    """Measure, and print."""
    if reason := missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder, served(answer) as url:
        root = Path(folder)
        place = Place.make(root, "work 1")
        place.config.write_text(
            f'[models.m]\nendpoint = "{url}"\nmodel = "m"\ncontext_window = 262144\n'
            'max_output_tokens = 100000\n[suggestions]\nrepetition_guard = "off"\n'
        )
        with opened(place, root / "profile", package(root)) as bench:
            chat = bench.chat()
            chat.ask(":help")
            chat.frame.evaluate(WATCH)
            bench.page.wait_for_timeout(3000)
            _print("first paint", f"{chat.frame.evaluate(PAINT):.0f} ms")
            _print("at rest", _told(chat.frame.evaluate("window.tasks")))
            # That long tasks are seen at all.
            chat.frame.evaluate(
                "setTimeout(() => { const t = Date.now(); while (Date.now() < t + 200); })"
            )
            bench.page.wait_for_timeout(1000)
            assert max(chat.frame.evaluate("window.tasks"), default=0) > 150
            chat.frame.evaluate(WATCH)
            chat.ask("Much.")
            _print(f"{DELTAS:,} deltas", _told(chat.frame.evaluate("window.tasks")))
            _print("shown of them", f"{len(str(chat.exchanges.last.text_content())):,} characters")
            for count in (100, 500):
                took = chat.frame.evaluate(MANY, count)
                _print(f"{2 * count:,} messages", f"shown in {took:.0f} ms")


def _print(what: str, found: str) -> None:
    sys.stdout.write(f"{what:16} {found}\n")


def _told(tasks: list[float]) -> str:
    return f"longest task {max(tasks, default=0):.0f} ms, {len(tasks)} over 50 ms"


if __name__ == "__main__":
    main()
