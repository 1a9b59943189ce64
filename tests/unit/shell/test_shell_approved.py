"""What a remembered approval covers, and what bash runs of a text that it covers."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aish_lsp.shell.risk.approved import Approvable, approvable

PROGRAMS = (
    *("black", "git", "make", "python3", "sh", "bash", "id", "cat", "rm", "tee", "xargs", "env"),
    *("sudo", "nohup", "x", "timeout", "nice", "prettier"),
)
ALLOWED = (
    "python3 -m unittest",
    "make test",
    "black -q cart.py",
    "git add cart.py",
    "sh run.sh fast",
    "python3 -c 'print(1)'",
    "cd sub && make test",
)
#: A program of the world: notes how it was called, where, and with which variables. It does so by
#: one write, since the commands of a pipe note at the same time.
NOTES = """#!/bin/sh
printf '%s\\0' "$0" "$PWD" "$PATH" "$EVIL$LD_PRELOAD$MAKEFLAGS$PYTHONPATH" "$@" '\n' >> LOG
"""


class World:
    """A workspace with programs that note what is run, and a place outside."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside, self.bin = folder / "tree", folder / "outside", folder / "bin"
        self.log = folder / "log"
        for place in (self.root / "sub", self.outside, self.bin):
            place.mkdir(parents=True)
        for name in PROGRAMS:
            self.program(self.bin / name)
        names = ("cart.py", "cart 2.py", "sub/deep.py", "run.sh", "-x.py", "Makefile")
        for name in (*names, "*.py", ":(top)x"):
            (self.root / name).write_text("x = 1\n")
        (self.outside / "far.py").write_text("x = 1\n")
        (self.root / "link.py").symlink_to(self.outside / "far.py")
        (self.root / "near.py").symlink_to("cart.py")
        (self.outside / "other.py").write_text("x = 1\n")
        os.link(self.outside / "other.py", self.root / "hard.py")
        (self.root / "out").symlink_to(self.outside)
        (self.root / "sub" / "below").mkdir()
        (self.root / "in").symlink_to("sub/below")
        self.environ = {"PATH": str(self.bin)}

    def program(self, place: Path, text: str = NOTES) -> None:
        place.write_text(text.replace("LOG", str(self.log)))
        place.chmod(0o755)

    def forms(
        self, text: str, folder: Path | None = None, *, shell: str = "bash", contents: bool = False
    ) -> tuple[Approvable, ...]:
        folder = folder or self.root
        return approvable(text, shell, folder, self.root, self.environ, contents=contents)

    def covers(self, allowed: str, text: str, folder: Path | None = None) -> bool:
        """Return whether an approval of ``allowed`` covers ``text``."""
        known, wanted = self.forms(allowed), self.forms(text, folder)
        assert known, allowed
        return bool(wanted) and set(wanted) <= set(known)

    def run(self, texts: list[str]) -> list[list[list[str]]]:
        """Run texts with bash; return the notes of what each ran."""
        self.log.write_text("")
        each = 'for text; do (eval "$text"); printf "next\\n" >> "$0"; done'
        subprocess.run(
            [str(shutil.which("bash")), "--norc", "-c", each, str(self.log), *texts],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=300,
        )
        notes = self.log.read_text().split("next\n")[:-1]
        return [[call.split("\0") for call in one.split("\0\n\0") if call] for one in notes]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# The variants of an allowed command


QUOTES = ("'{}'", '"{}"', "''{}", '{}""', "\\{}", "$'{}'", '$"{}"', "`echo {}`", "$(echo {})")
OPTIONS = (
    *("--", "-", "-v", "-n", "--exec=sh", "-f", "-C", "-c", "-o", "x", "--config", "+", "@x"),
    *("-q", "-qq", "-l", "--quiet", "--code", "-m", "-W", "--eval", "SHELL=/tmp/x", "--fix"),
)
OPERANDS = (
    *("cart.py", "'cart 2.py'", "near.py", "link.py", "hard.py", "sub", "sub/deep.py", "none.py"),
    *("../outside/far.py", "out/far.py", "/etc/hosts", "-x.py", "./-x.py", "*.py", "cart.{py,x}"),
    *("~", "~root", "$HOME", "${x:-y}", "$((1))", "<(id)", "https://x.org/y", "git+https://x.org"),
    *("'*.py'", "':(top)x'", "':/'", "'cart.py '"),
    *(".git/config", ".envrc", "cart.py/..", "sub/../cart.py", "%1", "a=b", "!!", "c\\art.py"),
)
JOINS = ("&&", ";", "|", "||", "&", "|&", "\n", ";;", "\r", "; ;", "&& &&", "-- &&")
OTHERS = (
    "id",
    "make",
    "make clean",
    "git push",
    "python3",
    "cat",
    "true",
    "",
    "rm run.sh",
    "xargs",
)
BEFORE = (
    *(
        "EVIL=1",
        "PATH=/tmp:$PATH",
        "LD_PRELOAD=./x.so",
        "MAKEFLAGS=-n",
        "env",
        "env EVIL=1",
        "sudo",
    ),
    *("exec", "command", "eval", "time", "!", "nohup", "builtin", "coproc", "if", "{", "(", "\\"),
    *("cd ./in/.. &&", "cd ./in/../.. &&", "cd ./in/../. &&", "timeout 9", "nice"),
    *("cd sub &&", "cd sub/below &&", "cd in &&", "cd - &&", "cd '' &&", "cd sub 2>&1 &&"),
    *("cd ./sub &&", "cd .. &&", "cd /tmp &&", "cd ./out &&", "cd;", "cd ./sub;"),
    *("export EVIL=1;", "alias make=id;", "hash -p /bin/id make;", "set -x;", "PATH=/tmp;"),
    *("printf -v PATH x;", "make() { id; };", "source run.sh;", ". ./run.sh;", "trap id EXIT;"),
)
AFTER = (
    *(
        "> new",
        ">> cart.py",
        "2>&1",
        "2>&1 | cat",
        "2>&1 && make test",
        "2>&1; id",
        "2>&1 x",
        "2>&1 > new",
        "2>&1>new",
        "2>&1x",
        "2>&12",
        "2>&1&",
        "2 >&1",
        "2> &1",
        "x2>&1",
        "''2>&1",
        ">&new",
        "2>new",
        "1>&2",
        "< run.sh",
        "<<< x",
        "<<E\nx\nE",
        "&> new",
        "# note",
        "&",
        ";",
    ),
    *(
        "\\",
        "\n",
        "'",
        '"',
        "`",
        "$",
        ")",
        "}",
        "| tee new",
        "> /dev/null",
        "{a,b}",
        "[a]",
        "?",
        "*",
    ),
)


def changed(text: str) -> Iterator[str]:
    """Yield the texts that one change makes of a command."""
    words = text.split(" ")
    for at, word in enumerate(words):
        before, after = words[:at], words[at + 1 :]
        new = [quotes.format(word) for quotes in QUOTES]
        for one in (*new, *OPERANDS, word.upper(), word.replace("e", "\u0435"), f"{word}x", ""):
            yield " ".join([*before, one, *after])
        for one in (*OPTIONS, *OPERANDS, word):
            yield " ".join([*before, one, word, *after])
            yield " ".join([*before, word, one, *after])
        yield " ".join([*before, *after])
        yield " ".join([*before, *reversed(words[at:])])
    for blank in ("  ", "\t", "\u00a0", "\\ ", "\n", "\r", ""):
        yield blank.join(["", *words, ""])
    for join in JOINS:
        for other in (*OTHERS, *ALLOWED[:2]):
            yield f"{text} {join} {other}"
            yield f"{other}{join}{text}"
    yield from (f"{before} {text}" for before in BEFORE)
    yield from (f"{text} {after}" for after in AFTER)
    yield from (f"{wrapper} '{text}'" for wrapper in ("sh -c", "bash -c", "eval", "./bin/sh"))


def variants(chance: random.Random) -> set[str]:
    """Return what one change makes of the allowed commands, and some of what two make."""
    once = {new for text in ALLOWED for new in changed(text)}
    twice = {
        chance.choice([*changed(text)]) for text in chance.sample(sorted(once), 400) if text.strip()
    }
    return (once | twice) - set(ALLOWED)


def is_allowed(world: World, call: list[str]) -> bool:
    """Return whether the approvals allow how a program was called."""
    program, cwd, path, variables, *words = call
    if (path, variables) != (world.environ["PATH"], ""):
        return False
    first = ["sh" if program == "run.sh" else Path(program).name, *words]
    if cwd == str(world.root / "sub"):
        return program == str(world.bin / "make") and first == ["make", "test"]
    if cwd != str(world.root):
        return False
    exact = [text.replace("'", "").split(" ") for text in ALLOWED]
    if program != str(world.bin / first[0]):
        return False
    if first in exact:
        return True
    head, rest = (first[:2], first[2:]) if first[0] in ("black", "git") else (first, [])
    free = head in (["black", "-q"], ["git", "add"])
    files = [world.root / word for word in rest]
    return bool(free and files) and all(
        file.is_file()
        and not word.startswith("-")
        and world.root in file.resolve().parents
        and file.stat().st_nlink == 1
        for word, file in zip(rest, files, strict=True)
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_of_thousands_of_variants_only_what_was_allowed_is_run_unasked(world: World) -> None:
    known = {form for text in ALLOWED for form in world.forms(text)}
    before = sorted(world.root.rglob("*"))
    tried = variants(random.Random(0))
    unasked = [text for text in tried if (forms := world.forms(text)) and set(forms) <= known]
    assert len(tried) > 3_000
    # Other quotes, more blanks, another file, two allowed ones on a line.
    assert len(unasked) > 100
    for text, calls in zip(unasked, world.run(unasked), strict=True):
        assert calls, text
        for call in calls:
            assert is_allowed(world, call), (text, call)
    assert sorted(world.root.rglob("*")) == before


# What is covered


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        ("python3 -m unittest", "  python3   -m 'unittest'"),
        ("python3 -m unittest", '"python3" -m unit"test"'),
        ("black -q cart.py", "black -q sub/deep.py 'cart 2.py'"),
        ("black -q cart.py", "black -q near.py"),
        ("make test && git add cart.py", "git add sub/deep.py; make test | make test"),
        ("echo done && make test", "make test"),
        ("make test", "make test 2>&1"),
        ("make test 2>&1", "2>&1 make test;make test 2>&1|make 2>&1 test"),
    ],
)
def test_an_approval_covers_the_same_command_with_other_blanks_quotes_or_data(
    world: World, allowed: str, text: str
) -> None:
    assert world.covers(allowed, text)


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        ("python3 -m unittest", "python3 -m unittest cart"),
        ("python3 -m unittest", "python3 -m http.server"),
        ("python3 -c 'print(1)'", "python3 -c 'print(2)'"),
        ("make test", "make -- test"),
        ("make test", "make test -n"),
        ("make -n test", "make test"),
        ("make test", "make test || make test"),
        ("make test", "make test; id"),
        ("make test", "EVIL=1 make test"),
        ("make test", "cd ./sub && make test"),
        ("sh run.sh fast", "sh sub/deep.py fast"),
        ("black -q cart.py", "black cart.py"),
        ("black -q cart.py", "black -q sub"),
        ("black -q cart.py", "black -q none.py"),
        ("black -q cart.py", "black -q cart.py -c x"),
        ("black -c cart.py", "black -c near.py"),
        ("black -q cart.py", "black -q hard.py"),
        ("black -q cart.py", "black -q link.py"),
        ("black -q cart.py", "black -q out/far.py"),
        ("black -q cart.py", "black -q ./../outside/far.py"),
        ("black -q cart.py", "black -q Makefile .envrc"),
        ("git add cart.py", "git add '*.py'"),
        ("git add cart.py", "git add ':(top)x'"),
        ("prettier -w cart.py", "prettier -w sub/deep.py"),
    ],
)
def test_an_approval_does_not_cover_what_differs(world: World, allowed: str, text: str) -> None:
    (world.root / ".envrc").write_text("x\n")
    assert not world.covers(allowed, text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "make > x",
            "make 2>&1x",
            "make 2>&12",
            "make2>&1",
            "'2'>&1 make",
            "make 2>&1 > x",
            "make 2>x",
            "2>&1",
            "make $X",
            "make `id`",
            "make *",
            "make {a,b}",
            "make &",
        ),
        *("X=1 make", "make\nmake", "make \\x", "make ~", "make;", "| make", "make #x", "(make)"),
        *("if make", "cd sub", "cd - && make", "cd ./sub; make", "cd ./none && make", "source x"),
        *(
            "printf -v PATH x; make",
            "kill 1",
            "no-such-program",
            "! make",
            '"" make',
            "make \u00e4",
        ),
        f"make {'x' * 5000}",
    ],
)
def test_what_is_no_plain_line_of_programs_cannot_be_remembered(world: World, text: str) -> None:
    assert world.forms(text) == ()


def test_another_shell_or_a_folder_outside_cannot_be_remembered(world: World) -> None:
    assert world.forms("make test", shell="/bin/sh")
    assert world.forms("make test", shell="fish") == ()
    assert world.forms("make test", world.outside) == ()


def test_an_approval_holds_in_its_folder_and_by_cd_there(world: World) -> None:
    sub = world.root / "sub"
    [there] = world.forms("make test", sub)
    assert there.name == "make test (in sub)"
    assert world.forms("cd ./sub && make test") == (there,)
    assert world.forms("cd sub && make test 2>&1") == (there,)
    assert world.forms(f"cd {sub} && make test") == (there,)
    assert world.forms("make test") != (there,)
    assert world.forms("cd ./out && make test") == ()
    # The shell would be in the folder of the link, not above its target.
    assert world.forms("cd ./in/.. && make test") == ()
    # It would run where the first folder is if the other cannot be entered.
    assert world.forms("cd ./sub && make test; make test") == ()


@pytest.mark.parametrize("variable", ["CDPATH", "BASH_ENV"])
def test_cd_by_a_name_that_cdpath_may_lead_elsewhere_cannot_be_remembered(
    world: World, variable: str
) -> None:
    (world.outside / "sub").mkdir()
    world.environ[variable] = str(world.outside)
    assert world.forms("cd sub && make test") == ()
    assert world.forms("cd ./sub && make test")


def test_a_program_that_was_replaced_is_not_covered(world: World) -> None:
    before = world.forms("make test")
    make = world.bin / "make"
    times = make.stat()
    world.program(make, NOTES.replace("EVIL", "LIVE"))
    os.utime(make, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert world.forms("make test") != before
    world.program(make)
    assert world.forms("make test") == before
    # One that is found before it.
    (world.root / "bin").mkdir()
    world.program(world.root / "bin" / "make")
    world.environ["PATH"] = f"bin:{world.environ['PATH']}"
    assert world.forms("make test") != before


@pytest.mark.parametrize("text", ["timeout 60 make test", "env make test", "nice -n 9 make"])
def test_a_program_that_another_one_runs_is_not_covered_when_it_was_replaced(
    world: World, text: str
) -> None:
    before = world.forms(text)
    assert before
    world.program(world.bin / "make", "#!/bin/sh\necho evil\n")
    assert world.forms(text) != before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_program_that_cannot_be_read_cannot_be_remembered(world: World) -> None:
    (world.bin / "make").chmod(0o111)
    assert world.forms("make test") == ()


@pytest.mark.parametrize("text", ["black -q cart.py", "sh run.sh --out=cart.py", "sh -ocart.py"])
def test_an_operand_that_became_a_link_out_of_the_tree_is_not_covered(
    world: World, text: str
) -> None:
    before = world.forms(text)
    (world.root / "cart.py").unlink()
    (world.root / "cart.py").symlink_to(world.outside / "far.py")
    assert world.forms(text) != before


def test_without_confinement_the_files_that_are_named_must_be_as_they_were(world: World) -> None:
    loose, strict = world.forms("sh run.sh"), world.forms("sh run.sh", contents=True)
    (world.root / "run.sh").write_text("evil\n")
    assert world.forms("sh run.sh") == loose
    assert world.forms("sh run.sh", contents=True) != strict
    # What was allowed in confinement was allowed there only.
    for text in ("make test", "black -q cart.py"):
        assert world.forms(text) != world.forms(text, contents=True)


@pytest.mark.parametrize("text", ["make {}", "{} x", "black {}", "cd ./{} && make", "./{}"])
@pytest.mark.parametrize("contents", [False, True])
def test_a_name_that_is_too_long_is_the_name_of_no_file(
    world: World, text: str, *, contents: bool
) -> None:
    forms = world.forms(text.format("x" * 300), contents=contents)
    assert len(forms) == (text in ("make {}", "black {}"))


def test_the_name_says_what_is_free_and_a_word_cannot_say_it(world: World) -> None:
    [free] = world.forms("black -q cart.py")
    assert free.name == "black -q FILE\N{HORIZONTAL ELLIPSIS}"
    [exact] = world.forms("black -q 'FILE\N{HORIZONTAL ELLIPSIS}'")
    assert exact.name == "black -q 'FILE\N{HORIZONTAL ELLIPSIS}'"
