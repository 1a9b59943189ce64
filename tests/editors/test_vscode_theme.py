"""The pages in a theme that defines no colors: all there is then are VS Code's own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from editor_parts import Place
from fault_server import served
from test_vscode_composer import Model, states
from test_vscode_faults import use
from test_vscode_tour import sound
from vscode_parts import Chat, Workbench, missing, opened, other_extension, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

#: The kinds of themes, as an extension names them and as a page is told.
KINDS = {"vs-dark": "vscode-dark", "vs": "vscode-light", "hc-black": "vscode-high-contrast"}

#: What has the focus, and how much its ring stands out from the page: the box's is around more.
_FOCUS = """
() => {
  const light = (color) => {
    const [red, green, blue] = color.map((part) =>
      part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const one = document.activeElement;
  const style = getComputedStyle(one.closest(".input") ?? one);
  const ring = parts(style.outlineColor);
  const body = parts(getComputedStyle(document.body).backgroundColor);
  const [low, high] = [light(ring.slice(0, 3)), light(body.slice(0, 3))].sort((a, b) => a - b);
  const isDrawn = style.outlineStyle !== "none" && ring[3] !== 0;
  return [one.outerHTML.slice(0, 120), isDrawn ? high / low : 0];
}
"""


@pytest.fixture(scope="module", name="bench")
def fixture_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    root = tmp_path_factory.mktemp("bench")
    place = Place.make(root, "work 1")
    (place.folder / "calc.py").write_text("def double(x):\n    return x + 1\n")
    themes = [{"label": kind, "uiTheme": kind, "path": "./bare.json"} for kind in KINDS]
    manifest = {"name": "bare", "contributes": {"themes": themes}}
    bare = other_extension(root / "bare", manifest, {"bare.json": json.dumps({"colors": {}})})
    with served(Model()) as url:
        use(place, url)
        with opened(place, root / "profile", package(root), also=[bare]) as bench:
            yield bench


@pytest.mark.parametrize("kind", KINDS)
def test_without_colors_of_a_theme_all_can_be_read_and_the_focus_is_seen(
    bench: Workbench, kind: str
) -> None:
    bench.set({"workbench.colorTheme": kind})
    chat = bench.new_chat()
    body = chat.frame.locator(
        f"body[data-vscode-theme-kind={KINDS[kind]}][data-vscode-theme-id={kind}]"
    )
    body.wait_for(state="attached")
    for name, frame in states(bench, chat):
        sound(frame, f"{name}, {kind}")
        if name == "inputs":
            focus_is_seen(bench, chat)
    bench.command("View: Close All Editors")


def focus_is_seen(bench: Workbench, chat: Chat) -> None:
    """Walk through all that takes the focus, as the keyboard does."""
    seen = set()
    chat.frame.locator(".log").focus()
    for _ in range(40):
        bench.page.keyboard.press("Tab")
        what, contrast = chat.frame.evaluate(_FOCUS)
        if 'aria-label="Attach' in what:
            break
        seen.add(what)
        assert contrast >= 3, (what, contrast)
    assert len(seen) > 10, seen
