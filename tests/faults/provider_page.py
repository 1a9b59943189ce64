"""docs/faults.md: what a user sees of every fault, written down from what came of it.

``python tests/faults/provider_page.py > docs/faults.md`` writes it anew.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    # As pytest does.
    sys.path += [str(ROOT / "tests/servers"), str(ROOT / "tests/lsp")]

import llama_server  # noqa: E402
from fault_proxy import Protocol  # noqa: E402
from provider_asking import Asker, Outcome, asking_all, near_limits  # noqa: E402
from provider_breaks import REPLY  # noqa: E402
from provider_table import PATIENCE, Row, faults  # noqa: E402

from aish_lsp.config.schema import Preset  # noqa: E402
from aish_lsp.foundation.errors import BackendUnavailable  # noqa: E402
from aish_lsp.models.retrying import pause_before  # noqa: E402

PAGE: Final = ROOT / "docs/faults.md"

#: The protocols, as the page calls them.
_NAMES: Final[dict[Protocol, str]] = {
    "openai": "Chat completions",
    "openai-responses": "Responses",
    "anthropic": "Messages",
    "gemini": "Gemini",
}

#: What the turn says behind the message of a reply that broke off.
_GO_ON: Final = "What arrived is kept: ask the model to continue."

#: Seconds of silence that the page tells of: the default of `timeout`.
_TOLD_PATIENCE: Final = Preset().timeout

_HEAD: Final = """\
<!-- Made by `python tests/faults/provider_page.py > docs/faults.md`. Do not edit. -->
# When a model fails

What you see of every fault of a model server, or of what stands before it: in the chat document
as a quote under your question, in a client of your own as the `error` of the `end` event.

Each row is what came of a test that provokes the fault over all four protocols, with a proxy that
breaks the bytes of a live reply of llama.cpp (of Gemini's, of a stream in Google's shape). Where
protocols differ, the row says so. Of each it was also tested that the next question over the same
client is answered, that no connection is left open, and that the key is in no message and no log.

- **What came is kept.** A reply that breaks off stays in the chat and in the session, and the next
  question goes on from it. Nothing is asked again by itself once a word was said.
- **It is asked again**, up to two times and within 20 seconds, where the server may only be busy.
  A notice says so.
- **Another model may answer** where nothing came and the server is down, silent, busy or broken:
  the next in `routing.fallback`, if you have set one. A notice says so.
- **It is shown as it is** where the server refused, or the address cannot be used: another try
  would end as this one, so the message has the server's own words and the setting to look at.
"""

_COLUMNS: Final = (
    "| What happens | What you see | What is kept | And then |",
    "| --- | --- | --- | --- |",
)


def shown(message: str, elsewhere: str) -> str:
    """Return an error's message as the page tells it: with no address and no time of this run."""
    message = message.replace(elsewhere, "http://elsewhere")
    message = re.sub(r"//127\.0\.0\.1:\d+", "//server", message)
    message = re.sub(r"//server/\S+", "//server/…", message)
    # What is quoted of a reply has numbers of its own.
    message = re.sub(r"(answered with )(event|data): .*( and not with)", r"\1…\3", message)
    message = re.sub(r"""or is cut \('\{".*'\)""", "or is cut ('{…')", message)
    return message.replace(f"for {PATIENCE:g} s", f"for {_TOLD_PATIENCE:g} s")


def cells(outcome: Outcome, elsewhere: str) -> tuple[str, str, str]:
    """Return what the page says of an outcome: message, what is kept, what is done next."""
    if outcome.error is None:
        same = outcome.text == REPLY
        return "the reply" if same else "the reply, with `\N{REPLACEMENT CHARACTER}`", "all", ""
    message = shown(outcome.error.message, elsewhere).replace("|", "\\|")
    if outcome.text:
        kept = "all that came" if outcome.text == REPLY else "the part that came"
        return f"{message.removesuffix(' Ask again.')} {_GO_ON}", kept, "it is shown, with the part"
    if not isinstance(outcome.error, BackendUnavailable):
        return message, "", "it is shown as it is"
    follows = "another model may answer"
    if pause_before(outcome.error, 0) is None:
        return message, "", follows
    return message, "", f"it is asked again, then {follows}"


def render(happens: str, by_protocol: dict[Protocol, tuple[str, str, str]]) -> str:
    """Return a fault's row; where protocols differ, each cell names them."""
    columns = []
    for column in zip(*by_protocol.values(), strict=True):
        if len(set(column)) == 1:
            columns.append(column[0])
            continue
        named: dict[str, list[str]] = {}
        for protocol, cell in zip(by_protocol, column, strict=True):
            named.setdefault(cell, []).append(_NAMES[protocol])
        columns.append("<br>".join(f"{', '.join(who)}: {cell}" for cell, who in named.items()))
    return f"| {' | '.join([happens, *columns])} |"


async def row_of(row: Row, askers: list[Asker], elsewhere: str) -> tuple[str, list[Outcome]]:
    """Provoke a fault over all protocols; return its row on the page and what came of each."""
    outcomes = await asyncio.gather(*(asker.provoke(row) for asker in askers))
    told = {
        asker.protocol: cells(outcome, elsewhere)
        for asker, outcome in zip(askers, outcomes, strict=True)
    }
    return render(row.happens, told), outcomes


async def page(llama_url: str) -> str:
    """Return the page, made from every fault anew."""
    lines = [_HEAD]
    with near_limits():
        async with asking_all(llama_url) as (askers, elsewhere):
            for kind, rows in faults(elsewhere.url).items():
                made = [(await row_of(row, askers, elsewhere.url))[0] for row in rows]
                lines += [f"## {kind}", "", *_COLUMNS, *made, ""]
    return "\n".join(lines)


def main() -> None:
    """Write the page to standard output."""
    grammar = llama_server.says(REPLY)
    with llama_server.LlamaServer(grammar=grammar, context=4096, parallel=4) as server:
        sys.stdout.write(asyncio.run(page(server.url)))


if __name__ == "__main__":
    main()
