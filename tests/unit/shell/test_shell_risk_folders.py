"""Where a command writes that changes folders on its way, against where bash does."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.shell.risk import classify

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

#: Folders, and those that hold an ``f``.
FOLDERS = ("a", "b", "a/b", "b/a")
HOLD = ("a", "b/a")

CHANGES = st.sampled_from(["cd a", "cd b", "cd ..", "cd a/b", "true", "false", "! cd a", "cd -- b"])
WRITES = st.sampled_from(
    ["echo x > f", "echo x | tee f", "> f echo x", "cat > f < /dev/null", "cp /dev/null f"]
)
ATOMS = st.one_of(CHANGES, WRITES)


def wrapped(text: str) -> st.SearchStrategy[str]:
    forms = ("{}", "({})", "{{ {}; }}", "if {}; then true; fi", "({}) > f", "{{ {}; }} > f")
    return st.sampled_from(forms).map(lambda form: form.format(text))


LINES = st.recursive(
    ATOMS,
    lambda inner: st.builds(
        lambda parts, joins: "".join(
            f"{part}{join}" for part, join in zip(parts, [*joins, ""], strict=False)
        ).rstrip(),
        st.lists(inner, min_size=2, max_size=4),
        st.lists(st.sampled_from([" && ", " || ", "; ", " | ", "\n"]), min_size=3, max_size=3),
    ).flatmap(lambda text: wrapped(text.rstrip(" &|;\n"))),
    max_leaves=8,
)


def make(root: Path) -> None:
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in HOLD:
        (root / name / "f").write_text("kept\n")


def overwrites(text: str, root: Path) -> bool:
    """Return whether bash changes a file that was there."""
    command = ["bash", "--norc", "-c", text]
    subprocess.run(command, cwd=root, capture_output=True, check=False, timeout=20)
    return any((root / name / "f").read_text() != "kept\n" for name in HOLD)


@given(LINES)
@settings(max_examples=1000 if os.environ.get("TESTS_FULL") else 50)
def test_what_overwrites_a_file_is_known_to(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root)
        told = classify(text, "bash", folder=root, confined=True)
        if overwrites(text, root):
            assert told.risk == "destructive", (text, told)


@pytest.mark.parametrize(
    ("text", "risk"),
    [
        ("cd a && echo x > f", "destructive"),
        ("cd a || echo x > f", "destructive"),
        ("true && cd a && echo x > f", "destructive"),
        ("cd b && echo x > f", "caution"),
        ("(cd a && true) > f", "caution"),
        ("(cd b && true) > a/f", "destructive"),
        ("echo y > g && cd a && echo x > f", "destructive"),
    ],
)
def test_a_redirection_belongs_to_the_last_of_a_list(tmp_path: Path, text: str, risk: str) -> None:
    make(tmp_path)
    assert classify(text, "bash", folder=tmp_path, confined=True).risk == risk


@pytest.mark.parametrize(
    "text",
    [
        *("eval 'cd a' && echo x > f", "eval 'cd a'; echo x > f", "x='cd a'; eval $x; echo x > f"),
        *("eval 'pushd a'; echo x | tee f", 'eval "$(echo cd a)"; echo x > f'),
        *("source ./s; echo x > f", ". ./s && echo x > f", "trap 'cd a' DEBUG; true; echo x > f"),
        *("alias q='cd a'\nq\necho x > f", "cd ~+/a; echo x > f", "HOME=a; cd; echo x > f"),
        *("set -- a; cd $1; echo x > f", "read d <<< a; cd $d; echo x > f"),
        *("OLDPWD=$PWD/a; cd -; echo x > f", "f=$1; echo x > $f", "echo x > a/$f"),
    ],
)
def test_what_cannot_be_told_is_not_what_a_snapshot_has(tmp_path: Path, text: str) -> None:
    make(tmp_path)
    assert (
        classify(text, "bash", folder=tmp_path, kept=tmp_path, confined=True).risk == "destructive"
    )
    assert classify(text, "bash", folder=tmp_path, confined=True).risk in ("caution", "destructive")


@pytest.mark.parametrize("text", ["cd ~/.ssh/$x && echo x > f", "cd ~$x/.ssh; echo x > f"])
def test_a_secret_folder_that_is_partly_unknown_counts(tmp_path: Path, text: str) -> None:
    assert classify(text, "bash", folder=tmp_path, confined=True).risk == "destructive"
