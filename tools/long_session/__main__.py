"""Hold long conversations with a real llama.cpp, and write down what each request came to.

``python tools/long_session --model FILE.gguf`` holds a session of 300 questions in a window of
8,192 tokens twice: with the token estimate, and with the model's own tokenizer. It prints the
tables, and with ``--write`` puts them into ``docs/context.md`` and every request into
``docs/long-session.csv``. It exits 1 where anything was not as it must be.

The weights may be random: a grammar makes the model say what it is to say. FILE's name tells the
family of its tokenizer, so name it as the model is named. Without a model the tests' tiny one is
taken, whose tokens are bytes; the estimate knows no such tokenizer, so that session is held with
the model's own alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What drives the session is the tests': their client, their llama.cpp, and the short form of this
# is one of them. The way to write tables is the other tool's.
sys.path += [str(ROOT / folder) for folder in ("tests/servers", "tests/lsp", "tools/fit_tokens")]

import figures  # noqa: E402
from long_session import Plan, Recording, Row, record  # noqa: E402
from report import replace_sections  # noqa: E402

PAGE = ROOT / "docs/context.md"
CALLS = ROOT / "docs/long-session.csv"


def hold(plan: Plan) -> Recording:
    """Hold a session in a folder of its own, which is gone afterwards."""

    def tell(row: Row) -> None:
        sys.stderr.write(f"\r{row.number} of {plan.questions}")

    with tempfile.TemporaryDirectory(prefix="aish-long-") as folder:
        recording = asyncio.run(record(plan, Path(folder), tell))
    sys.stderr.write("\n")
    return recording


def main() -> int:
    """Hold the sessions, print or write; return 1 where there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=Path, help="a GGUF file; else the tests' tiny model")
    parser.add_argument("--window", type=int, default=8192, help="the window, in tokens")
    parser.add_argument("--questions", type=int, default=300, help="of each session")
    parser.add_argument("--write", action="store_true", help="write the documentation's tables")
    options = parser.parse_args()
    if options.write and not options.model:
        parser.error("the documentation's tables need a --model")
    recordings = [
        hold(Plan(options.questions, options.window, use_endpoint, options.model))
        for use_endpoint in ((False, True) if options.model else (True,))
    ]
    sections = figures.sections(recordings)
    if options.write:
        replace_sections(PAGE, sections)
        CALLS.write_text(figures.calls(recordings), encoding="utf-8")
    else:
        for name, section in sections.items():
            sys.stdout.write(f"\n{name}\n\n{section}\n")
    faults = [fault for recording in recordings for fault in recording.faults]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
