"""Our models for VS Code's other extensions, and ``@aish`` in its own chat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from editor_parts import Place
from vscode_parts import missing, opened, other_extension, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

PROBE = """
const vscode = require("vscode");
const { writeFileSync } = require("node:fs");
exports.activate = (context) => {
  const told = process.env.PROBE_TOLD;
  context.subscriptions.push(vscode.commands.registerCommand("probe.ask", async () => {
    try {
      const models = await vscode.lm.selectChatModels({ vendor: "aish" });
      const model = models.find(({ id }) => id === "offline");
      const { User, Assistant } = vscode.LanguageModelChatMessage;
      const say = vscode.LanguageModelChatMessage;
      const reply = await model.sendRequest([say.User("Hello."), say.Assistant("Hello."),
        say.User("how do I list files?")], {}, new vscode.CancellationTokenSource().token);
      const pieces = [];
      for await (const piece of reply.text) pieces.push(piece);
      const tokens = await model.countTokens("one and two and three");
      writeFileSync(told, JSON.stringify({ names: models.map(({ id }) => id), pieces, tokens,
        most: model.maxInputTokens }));
    } catch (error) {
      writeFileSync(told, JSON.stringify({ error: String(error) }));
    }
  }));
  const chat = (query) => vscode.commands.executeCommand("workbench.action.chat.open",
    { query, mode: "ask", modelSelector: { vendor: "aish" } });
  for (const [name, query] of [["one", "how do I list files?"], ["two", "and only in src"],
    ["three", "is it there?"]]) {
    const ask = () => chat(`@aish ${query}`);
    context.subscriptions.push(vscode.commands.registerCommand(`probe.${name}`, ask));
  }
};
"""


def probe(folder: Path) -> Path:
    """Package an extension that asks a model of ours."""
    manifest = {
        "name": "probe",
        "main": "./extension.js",
        "contributes": {
            "commands": [
                {"command": f"probe.{name}", "title": f"Probe: {name}"}
                for name in ("ask", "one", "two", "three")
            ]
        },
    }
    return other_extension(folder, manifest, {"extension.js": PROBE})


def test_another_extension_asks_a_model_of_ours(tmp_path: Path) -> None:
    place = Place.make(tmp_path, "work 1")
    told = tmp_path / "told.json"
    variables = {"PROBE_TOLD": str(told)}
    also = [probe(tmp_path / "probe")]
    with opened(
        place, tmp_path / "profile", package(tmp_path), variables=variables, also=also
    ) as bench:
        chat = bench.chat()
        chat.ask("which folder am i in")
        bench.command("Probe: ask")
        dialog = bench.page.locator(".monaco-dialog-box")

        def answered() -> bool:
            # VS Code asks whether that extension may.
            if dialog.count():
                dialog.get_by_role("button", name="Allow").click()
            return told.exists()

        bench.until("the model's answer", answered)
        found = json.loads(told.read_text())
        assert "error" not in found, found
        assert "offline" in found["names"]
        assert "ls" in "".join(found["pieces"])
        assert found["tokens"] > 4
        assert found["most"] > 1000
    # It is in no conversation.
    assert "how do I list files?" not in str(place.sessions())


def test_in_the_chat_of_vs_code_itself(tmp_path: Path) -> None:
    place = Place.make(tmp_path, "work 1")
    (place.folder / "src").mkdir()
    also = [probe(tmp_path / "probe")]
    with opened(place, tmp_path / "profile", package(tmp_path), also=also) as bench:
        bench.chat().ask("which folder am i in")
        replies = bench.page.locator(".interactive-response")
        bench.command("Probe: one")
        replies.nth(0).locator(".interactive-result-code-block", has_text="ls -la").wait_for()
        # It goes on where it was, with a server that was started anew, too.
        bench.command("aish: Restart the Server")
        bench.chat().ask("which folder am i in")
        bench.command("Probe: two")
        replies.nth(1).locator(".interactive-result-code-block", has_text="src").wait_for()
        # One that does not answer says so, and leads to another one.
        place.config.write_text('[models.local]\nendpoint = "http://127.0.0.1:1"\nmodel = "m"\n')
        bench.command("Probe: three")
        bench.page.get_by_role("button", name="Connect a Model…").click()
        bench.page.locator(".quick-input-widget", has_text="Connect a Model").wait_for()
        assert "127.0.0.1:1" in replies.last.inner_text()
    # Each of its chats has a session of its own.
    logs = [path.read_text() for path in (tmp_path / "data").glob("workspaces/*/sessions/*.jsonl")]
    assert len(logs) == 2
    assert [("how do I list files?" in log, "and only in src" in log) for log in logs].count(
        (True, True)
    ) == 1
