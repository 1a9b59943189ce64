"""The texts that constants are fitted to and tried on: ordinary files, sorted by kind.

A text is in the half that is fitted or in the half that is tested by the hash of its file's name.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

#: Characters of a sample, drawn evenly by the logarithm; and the most of a file taken whole.
SAMPLE_FROM, SAMPLE_TO = 500, 20_000
WHOLE_UP_TO = 40_000

#: One file in so many is taken whole.
WHOLE_EVERY = 4

#: Texts of a kind in each half.
PER_HALF = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """A text of the corpus.

    Attributes:
        kind: what it is: ``python``, ``russian``, ...
        name: its file and the offset it was cut at.
        tested: whether it is in the half that is never fitted.
        text: its characters.
    """

    kind: str
    name: str
    tested: bool
    text: str


def samples(debs: Path, packages: Path, per_half: int = PER_HALF) -> list[Sample]:
    """Return the corpus, the same at each call on the same files.

    Args:
        debs: a folder of unpacked Debian packages, each in a folder of its name.
        packages: a folder of unpacked Python packages, each in a folder of its name.
        per_half: the most texts of a kind in each half.
    """
    found: list[Sample] = []
    for kind, sources in _sources(debs, packages).items():
        for tested in (False, True):
            streams = [_texts(kind, files, clean, tested=tested) for files, clean in sources]
            found += islice(_in_turn(streams), per_half)
    return found


Clean = Callable[[str], str]
Source = tuple[Iterable[Path], Clean]


def _sources(debs: Path, packages: Path) -> dict[str, list[Source]]:
    """Return for each kind where its files are and how a file becomes its text."""
    linux = debs / "linux-source-6.1/usr/src/linux-source-6.1"
    llama = packages / "llama_cpp_python"
    stdlib = Path(sysconfig.get_path("stdlib"))
    help_ = debs / "gnome-user-docs/usr/share/help"

    def files(folder: Path, *patterns: str) -> list[Path]:
        return [path for pattern in patterns for path in folder.rglob(pattern)]

    def manual(language: str, manpages: str, *others: str) -> list[Source]:
        code = language.replace("_", "-").lower()
        return [
            (files(debs / manpages, "*.gz") if manpages else [], _troff),
            (files(debs / f"gimp-help-{code}", "*.html"), _markup),
            (files(debs / f"libreoffice-help-{code}", "*.html"), _markup),
            (files(help_ / language, "*.page"), _markup),
            (files(debs / "debian-handbook", f"{language}-*/*.html"), _markup),
            *((files(debs / other, "*.txt.gz", "*.html"), _markup) for other in others),
        ]

    return {
        "python": [
            (files(stdlib, "*.py"), _as_it_is),
            (files(packages / "sympy", "*.py"), _as_it_is),
            (files(packages / "botocore", "*.py"), _as_it_is),
            (files(packages / "litellm", "*.py"), _as_it_is),
        ],
        "c": [
            (files(linux, "*.c"), _as_it_is),
            (files(linux, "*.h"), _as_it_is),
            (files(llama, "*.c"), _as_it_is),
        ],
        "c++": [
            (files(llama, "*.cpp", "*.hpp"), _as_it_is),
            (files(debs / "libboost1.81-dev", "*.hpp"), _as_it_is),
            (files(debs / "libeigen3-dev/usr/include/eigen3/Eigen/src", "*.h"), _as_it_is),
            (files(debs / "nlohmann-json3-dev", "*.hpp"), _as_it_is),
        ],
        "shell": [
            (files(linux, "*.sh"), _as_it_is),
            (files(debs / "bash-completion/usr/share", "*"), _as_it_is),
            (files(llama, "*.sh"), _as_it_is),
        ],
        "json": [
            (files(llama, "*.json"), _as_it_is),
            (files(packages / "botocore", "*.json.gz", "*.json"), _indented),
            (files(packages / "botocore", "*.json.gz", "*.json"), _compact),
            (files(packages / "litellm", "*.json"), _as_it_is),
            (files(linux, "*.json"), _as_it_is),
            (files(debs / "iso-codes", "*.json"), _as_it_is),
            (files(debs / "python3.11-doc", "*.json", "searchindex.js"), _as_it_is),
        ],
        "english": [
            (files(linux / "Documentation", "*.rst"), _as_it_is),
            (files(debs / "git-man", "*.gz"), _troff),
            (files(debs / "python3.11-doc", "*.txt"), _as_it_is),
            (files(debs / "fortunes/usr/share/games", "*.u8"), _as_it_is),
            *manual("en", "", "debian-reference-en", "developers-reference", "maint-guide"),
            (files(debs / "libreoffice-help-en-us", "*.html"), _markup),
        ],
        "russian": [
            *manual("ru", "manpages-ru", "developers-reference-ru", "maint-guide-ru"),
            (files(debs / "fortunes-ru", "ru/*", "fortunes/ru/*"), _as_it_is),
        ],
        "chinese": [
            *manual(
                "zh_CN",
                "manpages-zh/usr/share/man/zh_CN",
                "debian-reference-zh-cn",
                "maint-guide-zh-cn",
            ),
            (files(debs / "fortunes-zh", "*.u8"), _as_it_is),
        ],
        "traditional chinese": [
            (files(debs / "manpages-zh/usr/share/man/zh_TW", "*.gz"), _troff),
        ],
        "japanese": manual(
            "ja",
            "manpages-ja",
            "debian-reference-ja",
            "developers-reference-ja",
            "maint-guide-ja",
        ),
        "korean": manual("ko", ""),
        "german, french": [
            (files(help_ / "de", "*.page"), _markup),
            (files(help_ / "fr", "*.page"), _markup),
            (files(debs / "debian-handbook", "de-*/*.html", "fr-*/*.html"), _markup),
        ],
        "other latin": [
            (files(help_ / language, "*.page"), _markup)
            for language in ("es", "pl", "cs", "tr", "vi", "pt_BR", "sv", "hu")
        ],
        "other scripts": [
            (files(help_ / language, "*.page"), _markup)
            for language in ("el", "hi", "fa", "he", "ta", "uk", "kn", "gu")
        ],
        "web, markup": [
            (files(llama, "*.ts", "*.svelte"), _as_it_is),
            (files(llama, "*.md"), _as_it_is),
            (files(packages / "litellm", "*.js", "*.yaml", "*.md"), _as_it_is),
            (files(debs / "gimp-help-en", "*.html"), _as_it_is),
            (files(linux, "*.yaml"), _as_it_is),
        ],
        "output": [
            (files(linux, "Makefile"), _listing),
            (files(linux / "tools", "Makefile"), _matches),
            (files(linux / "fs", "Makefile"), _checksums),
            (files(packages / "botocore", "service-2.json.gz"), _dump),
        ],
    }


# How a file becomes its text.


def _as_it_is(path: str) -> str:
    return _read(path)


def _troff(path: str) -> str:
    # Before the first heading there are macros only.
    _, heading, page = _read(path).partition("\n.SH")
    shown = [line for line in f"{heading}{page}".splitlines() if not line.startswith((".\\", "'"))]
    lines = [
        re.sub(r"^\.\w+ ?", "", line).replace('"', "") if line.startswith(".") else line
        for line in shown
    ]
    text = re.sub(r"\\f(\[\w*\]|\(..|.)|\\s[-+]?\d|\\[&/,|^%:c]", "", "\n".join(lines))
    return re.sub(r"\\(.)", r"\1", text)


def _markup(path: str) -> str:
    text = _read(path)
    if "<" not in text[:200]:
        return text
    text = re.sub(r"(?s)<(script|style|head|info)\b.*?</\1>|<!--.*?-->|<[^>]*>", "", text)
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", html.unescape(text)).strip()


def _indented(path: str) -> str:
    return json.dumps(json.loads(_read(path)), indent=2)


def _compact(path: str) -> str:
    return json.dumps(json.loads(_read(path)), separators=(",", ":"))


def _listing(path: str) -> str:
    return _output("ls", "-l", "--time-style=long-iso", Path(path).parent)


def _matches(path: str) -> str:
    return _output("grep", "-rnE", "return|include", Path(path).parent)


def _checksums(path: str) -> str:
    return _output("sha1sum", *sorted(Path(path).parent.glob("*.[ch]")))


def _dump(path: str) -> str:
    return _output("hexdump", "-C", "-n", "3000", path)


def _output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, check=False, errors="replace")
    # Where the corpus was unpacked is this machine's affair, and would be in every line.
    return re.sub(r"/\S*/(linux-source|botocore)", r"/usr/src/\1", done.stdout)


def _read(path: str) -> str:
    data = Path(path).read_bytes()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    for encoding in ("utf-8", "euc_jp" if "/ja" in path else "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise UnicodeDecodeError("utf-8", data, 0, 1, "not a text")


# Which texts are taken, and how much of them.

_SCRIPTS = {
    "english": r"[a-zA-Z]",
    "russian": r"[\u0400-\u04ff]",
    "chinese": r"[\u4e00-\u9fff]",
    "traditional chinese": r"[\u4e00-\u9fff]",
    "japanese": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "korean": r"[\uac00-\ud7af]",
}

#: The least share of letters that a prose's own script must have: pages half translated are out.
_OWN_SCRIPT = 0.4


def _texts(kind: str, files: Iterable[Path], clean: Clean, *, tested: bool) -> Iterator[Sample]:
    """Yield the samples of one source's half, in the order of their names' hashes."""
    seen: set[str] = set()
    for digest, path in sorted((_digest(path), path) for path in files):
        if bool(digest[0] & 1) is not tested or not path.is_file() or path.is_symlink():
            continue
        try:
            text = clean(str(path))
        except (UnicodeDecodeError, ValueError, OSError):
            continue
        text, offset = _cut(text, digest)
        if len(text) < SAMPLE_FROM or text in seen or not _is_in_script(kind, text):
            continue
        seen.add(text)
        yield Sample(kind, f"{path.parent.name}/{path.name}@{offset}", tested, text)


def _digest(path: Path) -> bytes:
    """Return a hash of the file's name, that of the folder it was unpacked in not included."""
    name = "/".join(path.parts[-3:])
    return hashlib.sha256(name.encode()).digest()


def _cut(text: str, digest: bytes) -> tuple[str, int]:
    """Return a part of ``text`` from the begin of a line, or all of it, and where it begins."""
    if digest[1] % WHOLE_EVERY == 0:
        return text[:WHOLE_UP_TO], 0
    share = int.from_bytes(digest[2:5], "big") / 2**24
    size = int(SAMPLE_FROM * (SAMPLE_TO / SAMPLE_FROM) ** share)
    room = max(0, len(text) - size)
    begin = int.from_bytes(digest[5:9], "big") * room // 2**32
    begin = text.rfind("\n", 0, begin) + 1 if "\n" in text[:begin] else begin
    return text[begin : begin + size], begin


def _is_in_script(kind: str, text: str) -> bool:
    if kind not in _SCRIPTS:
        return True
    letters = len(re.findall(r"[^\W\d_]", text))
    return len(re.findall(_SCRIPTS[kind], text)) >= _OWN_SCRIPT * letters > 0


def _in_turn(streams: list[Iterator[Sample]]) -> Iterator[Sample]:
    """Yield one of each stream, then the next of each, until all are at their end."""
    while streams:
        left = []
        for stream in streams:
            item = next(stream, None)
            if item is not None:
                yield item
                left.append(stream)
        streams = left
