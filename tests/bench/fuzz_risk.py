"""A coverage-guided search for a text that the classifier fails on.

    python tests/bench/fuzz_risk.py [SECONDS]

It needs atheris (PyPI). Ends with an error at the first text that raises, that is judged without a
reason, or that is called safe although it begins with a plain ``rm``.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["aish_lsp.shell.risk"]):
    from aish_lsp.shell.risk import classify, walk  # noqa: F401 - loaded here to be followed

CORPORA = Path(__file__).resolve().parents[1] / "corpora"


def judge(data: bytes) -> None:
    """Judge one text in two languages."""
    text = data.decode("utf-8", "replace")
    for shell in ("bash", "pwsh"):
        verdict = classify(text, shell, confined=True)
        assert bool(verdict.reasons) == (verdict.risk != "safe"), text
    assert classify(f"rm x\n{text}", "bash", confined=True).risk != "safe", text


def main(seconds: int) -> None:
    """Search, beginning with the labelled commands."""
    with TemporaryDirectory() as folder:
        for path in CORPORA.glob("*.toml"):
            for group in tomllib.loads(path.read_text())["group"]:
                for number, command in enumerate(group["commands"]):
                    seed = Path(folder) / f"{path.stem}-{hash(group['why'])}-{number}"
                    seed.write_text(command)
        options = [f"-max_total_time={seconds}", "-max_len=400", "-timeout=20"]
        options += [f"-artifact_prefix={folder}/", "-verbosity=0"]
        atheris.Setup([sys.argv[0], folder, *options], judge)
        atheris.Fuzz()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
