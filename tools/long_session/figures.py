"""The results of long sessions, as the tables and screens of ``docs/context.md``."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import fields
from statistics import mean

from long_session import Recording, Row
from report import table

from aish_lsp.config.schema import Context

#: Beyond this many, turns are evicted whatever their tokens.
_MAX_TURNS = Context().max_turns

#: For this many questions, the estimate knows nothing about the model yet.
_LEARNED_AFTER = 3

#: How close an estimate that follows a count by the server has to be: tokens, or a share.
_NEAR = (8, 0.03)

#: In the table of single requests: the first few, every 20th, and the first few of each rare kind.
_FIRST, _EVERY, _OF_EACH = 4, 20, 4


def sections(recordings: Sequence[Recording]) -> dict[str, str]:
    """Return the page's sections by name."""
    shown = recordings[0].shown
    found = {
        "session": _aggregates(recordings),
        "requests": _requests(recordings[0]),
        "shown context": shown["context"],
        "shown cost": shown["cost"],
        "shown json": f"```json\n{shown['json']}\n```",
        "shown usage": f"```json\n{shown['usage']}\n```",
    }
    if "calibration" in shown:
        # The proxy's port changes each time.
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", shown["calibration"])
        found["shown calibration"] = f"```json\n{text}\n```"
    return found


def calls(recordings: Sequence[Recording]) -> str:
    """Return every question's request as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in fields(Row)]
    writer.writerow(["tokenizer", *names])
    for recording in recordings:
        for row in recording.rows:
            writer.writerow([_tokenizer(recording), *(getattr(row, name) for name in names)])
    return text.getvalue()


def _tokenizer(recording: Recording) -> str:
    return "endpoint" if recording.plan.use_endpoint else "heuristic"


def _aggregates(recordings: Sequence[Recording]) -> str:
    """Return the table of each session's totals."""
    columns = [_summed(recording) for recording in recordings]
    body = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return table(["", *map(_tokenizer, recordings)], body)


def _summed(recording: Recording) -> dict[str, str]:
    rows, requests = recording.rows, recording.calls
    plan = recording.plan
    known = [row for row in rows[_LEARNED_AFTER:] if row.basis == "actual"]
    near = sum(row.is_within(*_NEAR) for row in known)
    prompts = sum(call.prompt_tokens for call in requests)
    cached = sum(call.cached_tokens for call in requests)
    evictions = [row for row in rows if row.evicted]
    unchanged = [row for row in rows if not row.evicted and not row.new_system]
    return {
        "questions": f"{len(rows):,}",
        "requests, including those for summaries": f"{len(requests):,}",
        "requests for summaries": f"{sum(call.is_summary for call in requests):,}",
        "requests that llama.cpp refused": f"{sum(call.status != 200 for call in requests):,}",
        "largest request, of "
        f"{plan.window - plan.max_output:,}": f"{max(call.prompt_tokens for call in requests):,}",
        "evictions": f"{len(evictions):,}",
        f"evictions with more than {_MAX_TURNS} turns": (
            f"{sum(row.turns + row.evicted > _MAX_TURNS for row in evictions):,}"
        ),
        "turns evicted": f"{sum(row.evicted for row in rows):,}",
        "block changes without an eviction": (
            f"{sum(row.new_system and not row.evicted for row in rows[1:]):,}"
        ),
        "error, basis actual: mean, p95, maximum": _errors(
            [row for row in rows if row.basis == "actual"]
        ),
        "error, basis estimated: mean, p95, maximum": _errors(
            [row for row in rows if row.basis == "estimated"]
        ),
        f"basis actual, after {_LEARNED_AFTER} calls: within {_NEAR[1]:.0%} or {_NEAR[0]} tokens": (
            f"{near:,} of {len(known):,}"
        ),
        "input tokens": f"{prompts:,}",
        "input tokens from the cache": _share(cached, prompts),
        "the same, if nothing was evicted or changed": _share(
            sum(row.cached for row in unchanged), sum(row.actual for row in unchanged)
        ),
    }


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _errors(rows: Sequence[Row]) -> str:
    """Return mean, 95th percentile and maximum of the error, in percent of the actual count."""
    if not rows:
        return "-"
    errors = sorted(abs(row.error_percent) for row in rows)
    p95 = errors[math.ceil(0.95 * len(errors)) - 1]
    return f"{mean(errors):.1f} %, {p95:.1f} %, {errors[-1]:.1f} %"


def _requests(recording: Recording) -> str:
    """Return the table of some single requests."""
    rows = recording.rows
    evictions = [row.number for row in rows if row.evicted][:_OF_EACH]
    changes = [row.number for row in rows[1:] if row.new_system and not row.evicted][:_OF_EACH]
    chosen = {*evictions, *(number + 1 for number in evictions), *changes}
    head = ["question", "kind", "turns", "estimated", "basis", "actual", "error", "%", "cached", ""]
    body = [
        [
            row.number,
            row.kind,
            row.turns,
            f"{row.estimated:,}",
            row.basis,
            f"{row.actual:,}",
            f"{row.error:+,}",
            f"{row.error_percent:+.1f}",
            f"{row.cached:,}",
            _what_happened(row),
        ]
        for row in rows
        if row.number <= _FIRST or row.number % _EVERY == 0 or row.number in chosen
    ]
    return table(head, body)


def _what_happened(row: Row) -> str:
    if row.evicted:
        return f"{row.evicted} turns evicted"
    return "a block changed" if row.new_system and row.number > 1 else ""
