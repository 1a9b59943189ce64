"""Programs that stand in a command: in ``-c``, in a here-document, or in a file that it writes.

They are not parsed: words of them that delete, overwrite or start something are looked for, and
those that print what is secret. Confinement holds what else they do, where the tables say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aish_lsp.shell.risk.matching import takes_next
from aish_lsp.shell.risk.paths import mentions_secret
from aish_lsp.shell.risk.review import UNSEEN, Input, Review
from aish_lsp.shell.risk.words import HOLE

_DANGERS: Final = tuple(
    (reason, re.compile(pattern))
    for reason, pattern in (
        (
            "runs a program that deletes",
            (
                r"rmtree|unlink|\brmdir|removedirs|\bremove(?:Sync|_file|_dir_all)?\s*\(|remove_tree"
                r"|\bos\.remove\b|\bimport\s[^;\n]*\bremove\b|\[['\"]remove|\bfile\s+delete\b"
                r"|delete-(?:file|directory)|\brm(?:Sync|_r|_f|_rf)\b|\brm\s*\("
                r"|fs\.(?:promises\.)?rm\b|delete(?:Sync|_all|Many|Database)\b|rimraf|send2trash"
                r"|\bdelete_\w+\s*\(|\.delete\s*\(|(?i:truncate|\bdelete\s+from\b)"
                r"|(?:File|Dir|Pathname|FileUtils)\.(?:delete|rm|remove)|\bempty trash"
                r"|\bdelete (?:every|file|folder)"
                r"|drop(?:Database|_database|Collection|Table)?\s*\(|(?i:\bdrop\s+(?:table|database|schema)\b)"
                r"|\.drop(?:_all)?\(\)|flush(?:all|db)\b|del\s+\w*environ"
            ),
        ),
        (
            "runs a program that overwrites files",
            (
                r"\b(?:open|ZipFile|TarFile)\b[^;\n]*,\s*(?:mode\s*=\s*)?['\"][rbt]*[wax+][wbtax+]*['\"]"
                r"|\.open\s*\(\s*(?:mode\s*=\s*)?['\"][rbt]*[wax+][wbtax+]*['\"]|=\s*open\s*(?:[;\n]|$)"
                r"|\bopen\s*\(?[^;\n]*['\"]\s*\+?>|\bO_(?:TRUNC|WRONLY|RDWR|CREAT)\b"
                r"|write_(?:text|bytes)|(?:write|append|copy|rename)File(?:Sync)?\b|createWriteStream"
                r"|(?:File|IO|Pathname)\.(?:write|binwrite|rename)|file_put_contents|fopen\s*\([^)]*['\"][waxc]"
                r"|\bshutil\b|\bFileUtils\b|\.rename\s*\(|\brename\s*[\s(]|os\.(?:replace|link|symlink|chmod|chown|truncate)"
                r"|chmod(?:Sync)?\s*\(|to_(?:csv|json|pickle|sql)\(['\"]|\.save\("
            ),
        ),
        (
            "runs a program that starts others, or itself again",
            (
                r"subprocess|\bos\.(?:system|popen|exec|spawn|fork|kill|posix_spawn|setuid)|\bpty\b|child_process"
                r"|\bexec(?:Sync|File|FileSync|[lv]p?e?)?\s*[\s(]|\bspawn(?:Sync)?\b|\bsystem\s*[\s(]|\bpopen"
                r"|shell-command|call-process|start-process|shell_exec|passthru|proc_open|pcntl_|\bfork\b|%x[\[{(|]|`|qx[\W_]|Open3|IO\.popen"
                r"|Deno\.(?:Command|run|remove)|Bun\.spawn|[Pp]rocess\.(?:kill|spawn)"
                r"|do shell script"
                r"|Kernel\."
            ),
        ),
        (
            UNSEEN,
            (
                r"\beval\b|\bexec\b|__import__|importlib|\bcompile\s*\(|ctypes|pickle|marshal|b64decode|base64"
                r"|fromhex|\bsocket|codecs|getattr|globals\(|fromCharCode|Function\s*\(|unescape|instance_eval"
                r"|\\x[0-9a-f]{2}\\x|chr\s*\(|(?:urlopen|requests\.get|fetch)\b.*\bexec"
            ),
        ),
    )
)

#: Options of interpreters that hold a program, and those that take another value.
_CODE: Final = {
    "python": ("-c", "-W -X -Q --check-hash-based-pycs"),
    "pypy": ("-c", "-W -X"),
    "perl": ("-e -E", "-I -M -m -C -F -i"),
    "ruby": ("-e", "-I -r -C -E -F"),
    "node": ("-e -p -pe --eval --print", "-r --require --import --loader -C --env-file"),
    "nodejs": ("-e -p -pe --eval --print", "-r --require"),
    "bun": ("-e --eval -p --print", ""),
    "deno": ("--eval", ""),
    "php": ("-r -B -R -E", "-d -c -z -S -t"),
    "lua": ("-e", "-l"),
    "luajit": ("-e", "-l"),
    "rscript": ("-e", ""),
    "r": ("-e", ""),
    "julia": ("-e -E --eval --print", "-L -J -t -p"),
    "osascript": ("-e", "-l -s"),
    "tclsh": ("-c", ""),
    "expect": ("-c", ""),
    "groovy": ("-e", "-cp"),
    "scala": ("-e", ""),
    "elixir": ("-e --eval", "-r"),
    "erl": ("-eval", ""),
    "ghc": ("-e", ""),
    "jshell": ("-e", ""),
    "swift": ("-e", ""),
    "emacs": ("--eval -eval --execute", "-l -f --load --funcall"),
    "emacsclient": ("--eval -e", "-s -f"),
}
INTERPRETERS: Final = frozenset(_CODE)
#: With this Python looks for modules in its own folders alone.
_ISOLATED: Final = re.compile(r"-[A-Za-z]*I")

_SPAWNED: Final = re.compile(
    r"(?:system|popen|exec(?:Sync)?|shell_exec|passthru|do shell script)\s*\(?\s*(['\"])(.*?)\1",
    re.DOTALL,
)


#: They print variables, or look at processes: no confinement holds that.
_TELLS: Final = re.compile(
    r"environ|getenv|\bENV\b|\bENVIRON\b|process\.env|(?<![\w.$\"'])env\b|\$ENV|\$__|strenv|/proc\b"
    r"|/inet|\binput_?file"
)
#: They load code, from the folder too. What is built into Python is never looked for there.
_LOADS: Final = re.compile(
    r"\b(?:import(?! (?:sys|time)\s*(?:[;\n]|$))|from|use|require|include|do|source|load)\b|__"
)


def tells(review: Review, code: str) -> None:
    """Take down whether a program may print what is secret, or is not wholly known."""
    if HOLE in code:
        review.caution("runs a program that is not wholly known")
    if _TELLS.search(code) or mentions_secret(code):
        review.read_secrets = True
        review.caution("runs a program that may print secrets")


def scan(review: Review, code: str, language: str, depth: int) -> None:
    """Take down what the program ``code`` can destroy or tell."""
    if code.strip("\0 \n\t") == "" and HOLE in code:
        review.destructive(UNSEEN)
        return
    found = [reason for reason, pattern in _DANGERS if pattern.search(code)]
    for reason in found:
        review.destructive(reason)
    for match in _SPAWNED.finditer(code):
        review.add_text(match[2], depth + 1)
    tells(review, code)
    if _LOADS.search(code) and language != "isolated":
        review.caution("runs a program that loads others")


def interpret(review: Review, words: Sequence[str], depth: int, given: Input) -> bool:
    """Judge an interpreter: the program it is given, wherever that stands."""
    name = _language(words[0])
    code_options, values = _CODE[name]
    codes, valued = code_options.split(), frozenset(values.split())
    at, found = 1, False
    while at < len(words) and words[at][:1] == "-" and words[at] not in {"-", "--"}:
        word = words[at]
        code = _code_in(word, codes)
        if code is not None:
            isolated = name == "python" and any(map(_ISOLATED.match, words[1 : at + 1]))
            language = "isolated" if isolated else name
            scan(review, code or "".join(words[at + 1 : at + 2]), language, depth)
            found = True
        elif name == "python" and word[1:2] != "-" and "m" in word:
            return _module(review, words[at:], depth)
        elif name in {"perl", "ruby"} and "i" in word and word[1:2] != "-":
            review.caution("edits files in place")
        at += 2 if code == "" or takes_next(word, valued) else 1
    return not found and _script(review, name, words[at:], depth, given)


def _script(review: Review, name: str, words: Sequence[str], depth: int, given: Input) -> bool:
    """Judge the program in a file, or in the input; return whether nothing is left to say."""
    script = words[0] if words else "-"
    if script == "eval" and name == "deno":
        scan(review, "".join(words[1:2]), name, depth)
        review.caution("runs a program that stands in the command")
    elif name.startswith("emacs"):
        return False
    elif script in {"-", "/dev/stdin"}:
        if given is None:
            return False
        scan(review, given if isinstance(given, str) else given(), name, depth)
        review.caution("runs the program in its input")
    elif HOLE in script:
        review.destructive(UNSEEN)
    else:
        return run_written_file(review, script, name, depth)
    return True


def _language(word: str) -> str:
    name = re.sub(r"[\d.]+$", "", word.rpartition("/")[2].casefold().removesuffix(".exe"))
    return name if name in _CODE else "python"


def _code_in(word: str, codes: list[str]) -> str | None:
    """Return the program in an option, "" where the next word is it, None where it holds none."""
    for option in codes:
        if word == option:
            return ""
        if option[:2] == "--" and word.startswith(f"{option}="):
            return word[len(option) + 1 :]
        if len(option) == 2 and word[:2] != "--" and option[1] in word[1:]:
            return word.partition(option[1])[2]
    return None


def _module(review: Review, words: Sequence[str], depth: int) -> bool:
    """Judge ``python -m NAME``; return whether nothing is left to say."""
    name = words[0].partition("m")[2] or (words[1] if len(words) > 1 else "")
    rest = words[1:] if words[0].partition("m")[2] else words[2:]
    if name in {"pip", "pip3", "uv", "poetry", "ansible"}:
        review.add_text(" ".join((name, *rest)), depth + 1)
        return True
    if name == "timeit" and rest:
        scan(review, rest[-1], "python", depth)
    return False


def run_written_file(review: Review, path: str, language: str, depth: int) -> bool:
    """Judge running a file that the same command writes; return whether it is one."""
    text = review.runs_file(path)
    if text is None:
        return False
    if HOLE in text or not text:
        review.destructive("runs a file that it has just written")
    elif language == "sh":
        review.caution("runs a file that it has just written")
        review.add_text(text, depth + 1)
    else:
        review.caution("runs a file that it has just written")
        scan(review, text, language, depth)
    return True
