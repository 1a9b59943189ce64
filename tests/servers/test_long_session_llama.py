"""A long conversation with a real llama.cpp: no request too long, every count as the server's.

``tools/long_session`` holds hundreds of turns; here are some, of the same kinds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from long_session import Plan, Recording, record

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")
MODEL = SHARED / "models" / "tiny-llama-spm.gguf"

# Seconds on a machine that does much else; some 20 otherwise.
pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("parts"), pytest.mark.timeout(400)]


def check(recording: Recording) -> None:
    assert recording.faults == []
    assert len(recording.rows) == recording.plan.questions
    assert any(row.evicted for row in recording.rows)
    assert any(call.is_summary for call in recording.calls)


async def test_with_the_models_own_tokenizer_every_count_is_right(tmp_path: Path) -> None:
    plan = Plan(questions=15, window=4096, use_endpoint=True)
    check(await record(plan, tmp_path))


@pytest.mark.shared
async def test_with_estimates_alone_no_request_is_too_long(tmp_path: Path) -> None:
    if not MODEL.exists():
        pytest.skip(f"needs {MODEL.name} in {SHARED.name}/models")
    plan = Plan(questions=15, window=2048, use_endpoint=False, model=MODEL)
    recording = await record(plan, tmp_path)
    check(recording)
    # What the server counted is known, the newest question alone is estimated.
    known = [row for row in recording.rows[3:] if row.basis == "actual"]
    assert sum(abs(row.error_percent) for row in known) / len(known) <= 3
