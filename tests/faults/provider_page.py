"""docs/faults.md: what a user sees of every fault, written from the results of the tests.

``./dev docs`` rewrites it.
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

from aish_lsp.agent.remedies import pause_before  # noqa: E402
from aish_lsp.config.schema import Preset  # noqa: E402
from aish_lsp.foundation.errors import BackendUnavailable  # noqa: E402

PAGE: Final = ROOT / "docs/faults.md"

#: The protocols, as the page calls them.
_NAMES: Final[dict[Protocol, str]] = {
    "openai": "Chat completions",
    "openai-responses": "Responses",
    "anthropic": "Messages",
    "gemini": "Gemini",
}

#: What the turn says after the message of a reply that broke off.
_GO_ON: Final = "What arrived is kept: ask the model to continue."

#: Seconds of silence on the page: the default of `timeout`.
_TOLD_PATIENCE: Final = Preset().timeout

_HEAD: Final = """\
<!-- Made by `./dev docs`. Do not edit. -->
# When a model fails

A reference page: what you see of every fault of a model server, or of anything in front of it: as a
quote under your question in the chat document, or as the `error` of the `end` event in a client of
your own.

Each row is the result of a test that provokes the fault over all four protocols, with a proxy that
breaks the bytes of a live reply from llama.cpp (for Gemini, of a stream in Google's format). If the
protocols differ, the row says so. The tests also check that the next question over the same client
is answered, that no connection is left open, and that the key is in no message and no log.

- **What came is kept.** A reply that breaks off stays in the chat and in the session, and the next
  question continues from it. Once a word of the reply has come, nothing is asked again on its own.
- **aish asks again**, up to twice and within 20 seconds, if the server may only be busy. A notice
  says so.
- **Another model may answer** if nothing came and the server is down, silent, busy or broken: the
  next in `routing.fallback`, if you have set one. A notice says so.
- **The error is shown unchanged** if the server refused, or the address cannot be used: another try
  would end the same way, so the message has the server's own words and the setting to check.

## What servers do without meaning harm

It is taken as it is meant. Each kind has its rule in one place, and its tests have the shapes that
users of other tools reported.

- **A field is refused, renamed, or wanted to be different.** You get the answer, and a notice once:
  "… is asked again in another form: its server does not accept `top_p`, which is left out".
  (`models/refusals.py`)
- **The conversation is refused** by the server or its template: roles, calls, ids, signatures,
  empty messages. The same, with the form; if none helps, the error says what was tried, and the
  session goes on ([all forms](models.md#what-a-server-does-not-take)). (`models/forms.toml`)
- **The request is too long**, in whatever words. You get a notice, and the answer to a shorter one.
  (`models/too_long.txt`, `models/refusals.py`)
- **Something is wanted back** that the server said of a call or of its reasoning. It gets that
  back, unchanged, and no other server does. (`kept_of` in `models/providers/reply.py`)
- **Calls come in odd pieces**: without an index, an id or a name, twice, together, encoded twice,
  under a longer name. You see the call. (`ChatReader` in `models/providers/openai.py`, `tool_named`
  in `models/request.py`)
- **A call is left in the text**, by a server that has no parser for it. It is made if it is the
  call of a tool that was offered, and begins a line outside of a block of code.
  (`models/written_calls.py`)
- **A reply ends oddly**: empty, only reasoned, for the provider's own reason, within a call. It is
  asked for once more if nothing had come, or a notice says why; a call that was cut is never made.
  (`ReplyReader` in `models/providers/reply.py`, `finish_notice` in `agent/fitting.py`)
- **Signs of life, comments, other content types.** You see the reply. (`models/http.py`)
- **Reasoning is in the text.** It is shown as it came, and no command in it is suggested or run.
  (`shell/suggestions.py`)
- **Tokens are counted oddly**: under other names, without what was cached, with zeros at the end,
  not at all after a break. You see what was meant; what is not reported is estimated, and a price
  is never guessed. (`read_usage` in `models/providers/openai.py`, `agent/accounting.py`)
- **Models are listed oddly**, or loaded when they are asked for. You see the models, a loaded one
  first, each with its window. (`models/endpoint.py`)
- **The environment is wrong**: a proxy, `NO_PROXY`, `SSL_CERT_FILE`. A notice names the variable
  once, `aish-lsp doctor` does too, and aish goes on without it. (`models/network.py`)

Tool servers have [their own](tools.md#tool-servers).
"""

_COLUMNS: Final = (
    "| What happens | What you see | What is kept | And then |",
    "| --- | --- | --- | --- |",
)


def shown(message: str, elsewhere: str) -> str:
    """Return an error's message as the page shows it: without this run's addresses and times."""
    message = message.replace(elsewhere, "http://elsewhere")
    message = re.sub(r"//127\.0\.0\.1:\d+", "//server", message)
    message = re.sub(r"//server/\S+", "//server/…", message)
    # The part of a reply that is quoted contains numbers of its own.
    message = re.sub(r"(answered with )(event|data): .*( and not with)", r"\1…\3", message)
    message = re.sub(r"""or is cut \('\{".*'\)""", "or is cut ('{…')", message)
    return message.replace(f"for {PATIENCE:g} s", f"for {_TOLD_PATIENCE:g} s")


def cells(outcome: Outcome, elsewhere: str) -> tuple[str, str, str]:
    """Return what the page says about an outcome: message, what is kept, what happens next."""
    if outcome.error is None:
        same = outcome.text == REPLY
        return "the reply" if same else "the reply, with `\N{REPLACEMENT CHARACTER}`", "all", ""
    message = shown(outcome.error.message, elsewhere).replace("|", "\\|")
    if outcome.text:
        kept = "everything that came" if outcome.text == REPLY else "the part that came"
        return f"{message.removesuffix(' Ask again.')} {_GO_ON}", kept, "it is shown with that part"
    if not isinstance(outcome.error, BackendUnavailable):
        return message, "", "it is shown unchanged"
    follows = "another model may answer"
    if pause_before(outcome.error, 0) is None:
        return message, "", follows
    return message, "", f"aish asks again, then {follows}"


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
    """Provoke a fault over all protocols; return its row on the page and each outcome."""
    outcomes = await asyncio.gather(*(asker.provoke(row) for asker in askers))
    told = {
        asker.protocol: cells(outcome, elsewhere)
        for asker, outcome in zip(askers, outcomes, strict=True)
    }
    return render(row.happens, told), outcomes


async def page(llama_url: str) -> str:
    """Return the page, made by provoking every fault."""
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
