"""The classifier against labelled commands, as they are and in disguise."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.shell.risk import classify
from aish_lsp.shell.risk.plain import PLAIN, simple_commands
from aish_lsp.shell.risk.review import Review
from aish_lsp.shell.risk.walk import walk

CORPORA = Path(__file__).resolve().parents[2] / "corpora"
FULL = os.environ.get("TESTS_FULL") == "1"


def commands(name: str) -> list[str]:
    """Return the commands of a corpus; each group says why its label is what it is."""
    groups = tomllib.loads((CORPORA / f"{name}.toml").read_text())["group"]
    assert all(group["why"] for group in groups)
    return [command for group in groups for command in group["commands"]]


DESTRUCTIVE, READ_ONLY, CHANGING = map(commands, ("destructive", "read_only", "changing"))
NEVER_SAFE = commands("never_safe")
AROUND = commands("around")


def judged(corpus: list[str], risk: str, *, confined: bool = True) -> list[str]:
    return [
        command for command in corpus if classify(command, "bash", confined=confined).risk == risk
    ]


@pytest.mark.parametrize("confined", [True, False])
def test_what_looks_as_if_it_read_is_never_safe(*, confined: bool) -> None:
    assert judged(NEVER_SAFE, "safe", confined=confined) == []


def test_the_corpora_are_large_and_have_no_command_twice() -> None:
    assert len(DESTRUCTIVE) + len(READ_ONLY) + len(CHANGING) >= 1200
    every = [*DESTRUCTIVE, *READ_ONLY, *CHANGING]
    assert sorted(set(every)) == sorted(every)


def test_of_destructive_commands_none_is_safe_and_nearly_all_are_destructive() -> None:
    assert judged(DESTRUCTIVE, "safe") == []
    assert len(judged(DESTRUCTIVE, "destructive")) >= 0.99 * len(DESTRUCTIVE)


def test_of_commands_that_read_nearly_all_are_safe() -> None:
    assert judged(READ_ONLY, "destructive") == []
    assert len(judged(READ_ONLY, "safe")) >= 0.97 * len(READ_ONLY)


def test_of_everyday_changes_one_in_a_hundred_is_destructive_at_most() -> None:
    assert judged(CHANGING, "safe") == []
    assert judged(CHANGING, "destructive") == []


@pytest.mark.parametrize(
    "inner",
    ["rm -rf src", "git reset --hard", "dropdb shop", "kubectl delete ns a", "find . -delete"],
)
def test_what_destroys_is_seen_whatever_it_stands_in(inner: str) -> None:
    texts = [text.replace("<C>", inner) for text in AROUND]
    seen = set(judged(texts, "destructive"))
    assert [text for text in texts if text not in seen] == []


def test_what_only_reads_is_no_danger_whatever_it_stands_in() -> None:
    assert judged([text.replace("<C>", "ls") for text in AROUND], "destructive") == []


def test_values_that_double_with_each_variable_are_not_built() -> None:
    doubling = "; ".join(f"v{i}=$v{i - 1}$v{i - 1}" for i in range(1, 60))
    assert classify(f"v0=xxxxxxxxxx; {doubling}; cat $v59", "bash", confined=True).risk == "caution"


@pytest.mark.parametrize("shell", ["zsh", "fish", "pwsh", "cmd.exe", "/bin/dash"])
def test_with_another_shell_nothing_is_safe(shell: str) -> None:
    for command in [*READ_ONLY, *DESTRUCTIVE]:
        assert classify(command, shell, confined=True).risk != "safe", command


@pytest.mark.parametrize("corpus", [DESTRUCTIVE, READ_ONLY, CHANGING, NEVER_SAFE])
def test_a_plain_text_is_judged_without_the_grammar_as_with_it(corpus: list[str]) -> None:
    plain = [text for text in corpus if simple_commands(text, PLAIN)]
    assert len(plain) > len(corpus) / 3
    for text in plain:
        review = Review(None, None)
        walk(review, text)
        while (waiting := review.next_text()) is not None:
            walk(review, waiting)
        if review.findings.level:
            assert classify(text, "bash", confined=True).risk == review.findings.risk, text
        else:
            assert classify(text, "bash", confined=True).only_reads, text


@settings(max_examples=2000 if FULL else 200, deadline=None)
@given(st.text(alphabet="ab-=./ \t'\"~*?^,:@%+1$`\\!#{}()<>|&;\n", max_size=30))
def test_the_words_of_a_plain_text_are_those_that_a_shell_passes_on(text: str) -> None:
    plain = simple_commands(text, PLAIN)
    if plain is None or len(plain[0]) > 1:
        return
    quoted = shlex.shlex(text, posix=True, punctuation_chars=True)
    quoted.whitespace_split = True
    assert plain[0][0] == [*quoted], text


# --- disguises that keep what a command means ----------------------------------------------------

Mutation = Callable[[str, random.Random], str]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _name_and_rest(command: str) -> tuple[str, str]:
    name, space, rest = command.partition(" ")
    return (name, space + rest) if name.isalnum() else ("", command)


def _quote_name(command: str, chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    at = chance.randint(0, len(name))
    nothing = chance.choice(['""', "''"])
    return f"{name[:at]}{nothing}{name[at:]}{rest}" if name else command


def _escape_name(command: str, chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    at = chance.randint(0, max(0, len(name) - 1))
    return f"{name[:at]}\\{name[at:]}{rest}" if name else command


def _continue_name(command: str, chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    at = chance.randint(0, len(name))
    return f"{name[:at]}\\\n{name[at:]}{rest}" if name else command


def _in_variable(command: str, chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    variable = chance.choice(["x", "cmd", "_a"])
    uses = chance.choice([f"${variable}", f'"${variable}"', f"${{{variable}}}"])
    return f"{variable}={name}; {uses}{rest}" if name else command


def _in_two_variables(command: str, chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    at = chance.randint(1, max(1, len(name) - 1))
    return f"a={name[:at]} b={name[at:]}; $a$b{rest}" if name else command


def _printed(command: str, chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    return f"$({chance.choice(['echo', 'printf'])} {name}){rest}" if name else command


def _hexadecimal(command: str, _chance: random.Random) -> str:
    name, rest = _name_and_rest(command)
    return "$'" + "".join(f"\\x{ord(c):02x}" for c in name) + f"'{rest}" if name else command


def _wrapped(command: str, chance: random.Random) -> str:
    return chance.choice(
        [
            f"bash -c {_quoted(command)}",
            f"sh -xc {_quoted(command)}",
            f"eval {_quoted(command)}",
            f"sudo -n sh -c {_quoted(command)}",
            f"env A=1 bash -c {_quoted(command)}",
            f"timeout 5 bash -c {_quoted(command)}",
            f"nohup nice -n 5 sh -c {_quoted(command)} &",
            f"ssh -p 22 host {_quoted(command)}",
            f"docker exec -i web sh -c {_quoted(command)}",
            f"watch -n 5 {_quoted(command)}",
            f"echo {_quoted(command)} | bash",
            f"find . -exec bash -c {_quoted(command)} \\;",
            f"ls | xargs -I% sh -c {_quoted(command)}",
            f"trap {_quoted(command)} EXIT",
            f"su bob -c {_quoted(command)}",
        ]
    )


def _enclosed(command: str, chance: random.Random) -> str:
    return chance.choice(
        [
            f"( {command}\n)",
            f"{{ {command}\n}}",
            f"if true; then {command}\nfi",
            f"while true; do {command}\ndone",
            f"f() {{ {command}\n}}; f",
            f"echo $( {command}\n)",
            f"x=$( {command}\n)",
            f"cat <( {command}\n)",
            f"[[ -n $( {command}\n) ]]",
            f"case a in a) {command}\n;; esac",
            f"for i in 1 2; do {command}\ndone",
        ]
    )


def _far_away(command: str, chance: random.Random) -> str:
    between = chance.choice(["; ", " && ", "\n", " & ", " || "])
    before = between.join(chance.choice(["ls", "pwd", "echo a", "git status"]) for _ in range(60))
    return f"{before}{between}{command}"


def _padded(command: str, chance: random.Random) -> str:
    return " " * chance.randint(1, 900) + "\t" + command + " " * 50


def _commented(command: str, _chance: random.Random) -> str:
    return f"# only reads\n{command}\n# nothing to see"


MUTATIONS: dict[str, Mutation] = {
    function.__name__: function
    for function in (
        *(_quote_name, _escape_name, _continue_name, _in_variable, _in_two_variables, _printed),
        *(_hexadecimal, _wrapped, _enclosed, _far_away, _padded, _commented),
    )
}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.slow
def test_no_disguise_makes_a_destructive_command_safe(name: str) -> None:
    chance = random.Random(name)
    for command in DESTRUCTIVE:
        if "\n" in command and name != "_far_away":
            continue
        disguised = MUTATIONS[name](command, chance)
        assert classify(disguised, "bash", confined=True).risk != "safe", disguised


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.slow
def test_hardly_a_disguise_hides_that_a_command_is_destructive(name: str) -> None:
    chance = random.Random(name)
    plain = [c for c in DESTRUCTIVE if "\n" not in c and "'" not in c]
    seen = [
        c
        for c in plain
        if classify(MUTATIONS[name](c, chance), "bash", confined=True).risk == "destructive"
    ]
    assert len(seen) >= 0.95 * len(plain)


@settings(max_examples=2000 if FULL else 150, deadline=None)
@given(
    st.sampled_from(DESTRUCTIVE),
    st.lists(st.sampled_from(sorted(MUTATIONS)), min_size=1, max_size=3),
    st.integers(0, 2**32),
)
@pytest.mark.slow
def test_no_row_of_disguises_makes_a_destructive_command_safe(
    command: str, names: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    for name in names:
        command = MUTATIONS[name](command, chance)
    assert classify(command, "bash", confined=True).risk != "safe"


@pytest.mark.parametrize("hidden", "\u202e\u200b\u00a0\ufeff\u2066\U000e0041\x1b\x00\r\u3164")
def test_what_is_not_seen_makes_every_command_destructive(hidden: str) -> None:
    for command in READ_ONLY[:40]:
        assert classify(f"{command} {hidden}", "bash", confined=True).risk == "destructive"


LETTERS = st.sampled_from("ab-=./ \t\n'\"$`\\!~*?[]{}()<>|&;#:%@+,^é0")
TOKENS = [
    *(
        "rm",
        "ls",
        "git",
        "sudo",
        "sh -c",
        "eval",
        "echo",
        "$x",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "|",
        "&&",
    ),
    *(";", "{", "}", "(", "<<E", "\nE\n", ">", "<", ">>", "xargs", "find", "-exec", "\\;", "if"),
    *(
        "then",
        "fi",
        "for i in a; do",
        "done",
        "case a in",
        "esac",
        "f()",
        "x=rm",
        "${x}",
        "${x:-y}",
    ),
    *("$((", "))", "[[", "]]", "\\", "\n", "#", "cat", "-rf", "!", "&", "a", "x"),
]
WORDS = st.lists(st.sampled_from(TOKENS), max_size=25)


@settings(max_examples=5000 if FULL else 300, deadline=None)
@given(st.text(alphabet=LETTERS, max_size=60) | WORDS.map(" ".join))
@pytest.mark.slow
def test_no_text_makes_it_fail(text: str) -> None:
    for shell in ("bash", "pwsh"):
        verdict = classify(text, shell, confined=True)
        assert bool(verdict.reasons) == (verdict.risk != "safe")


@settings(max_examples=2000 if FULL else 100, deadline=None)
@given(st.text(max_size=200))
def test_no_character_makes_it_fail(text: str) -> None:
    assert classify(text, "bash", confined=True).risk in {"safe", "caution", "destructive"}


@pytest.mark.skipif(not FULL, reason="AISH_FULL=1 searches for half a minute")
def test_a_guided_search_finds_no_text_that_makes_it_fail() -> None:
    pytest.importorskip("atheris")
    script = CORPORA.parent / "bench" / "fuzz_risk.py"
    command = [sys.executable, str(script), "30"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert run.returncode == 0, run.stderr[-2000:]


# --- what a real bash makes of what is called safe ------------------------------------------------


@settings(max_examples=3000 if FULL else 150, deadline=None)
@given(WORDS)
def test_a_real_bash_runs_no_rm_in_what_is_called_safe(
    tools: dict[str, str], tokens: list[str]
) -> None:
    """``rm`` only leaves a mark here, and nothing but a few readers is there besides."""
    text = " ".join(tokens).replace(" \n ", "\n")
    if "rm" not in text or classify(text, "bash", confined=True).risk != "safe":
        return
    mark = Path(tools["MARK"])
    subprocess.run(
        [tools["BASH_PATH"], "--norc", "--noprofile", "-c", text],
        env=tools,
        cwd=mark.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert not mark.exists(), text


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which ``rm`` leaves a mark and does nothing else."""
    folder = tmp_path_factory.mktemp("tools")
    (folder / "work").mkdir()
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not here")
    for name in ("ls", "cat", "echo", "find", "xargs"):
        (folder / name).symlink_to(str(shutil.which(name)))
    mark = folder / "work" / "mark"
    (folder / "rm").write_text(f"#!/bin/sh\n: > {mark}\n")
    (folder / "rm").chmod(0o755)
    return {"PATH": str(folder), "MARK": str(mark), "HOME": str(folder / "work"), "BASH_PATH": bash}
