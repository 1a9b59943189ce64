"""Where secrets lie: what a confined command can list by name, and not read."""

from __future__ import annotations

import fnmatch
import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from aish_lsp.foundation.paths import data_dir
from aish_lsp.shell.confinement.mounts import (
    is_within,
    mounted_twice,
    mounts,
    other_names,
    points_within,
)

#: Below a home; the last part of each may be a pattern.
_OF_A_HOME: Final = (
    # Keys and access.
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".vault-token",
    ".docker/config.json",
    ".cargo/credentials*",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/hub",
    ".config/rclone",
    ".config/containers",
    ".config/op",
    ".config/sops",
    ".config/age",
    ".config/doctl",
    ".config/hcloud",
    ".config/pypoetry/auth.toml",
    ".config/filezilla",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".terraform.d",
    ".terraformrc",
    ".password-store",
    ".s3cfg",
    ".boto",
    ".oci",
    ".pki",
    ".cache/huggingface/token",
    ".config/github-copilot",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".databrickscfg",
    ".subversion/auth",
    ".Xauthority",
    ".huggingface",
    ".claude*",
    ".codex",
    ".gemini",
    ".age",
    ".kaggle",
    ".fly",
    ".ngrok2",
    ".snowsql",
    ".snowflake",
    ".vault_pass*",
    ".wrangler",
    ".config/netlify",
    ".config/ngrok",
    ".config/stripe",
    ".local/share/com.vercel.cli",
    # Wallets, and what else keeps passwords and messages.
    ".bitcoin",
    ".electrum",
    ".ethereum",
    ".config/solana",
    ".config/1Password",
    ".config/Bitwarden*",
    ".config/keepassxc",
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    # Key rings.
    ".local/share/keyrings",
    ".local/share/kwalletd",
    "Library/Keychains",
    # Mail and browsers, with what they keep of passwords and cookies.
    ".mozilla",
    ".thunderbird",
    ".cache/mozilla",
    ".cache/thunderbird",
    ".config/google-chrome*",
    ".config/chromium*",
    ".config/BraveSoftware",
    ".config/microsoft-edge*",
    ".config/opera*",
    ".config/vivaldi*",
    ".config/evolution",
    ".local/share/evolution",
    ".var/app/org.mozilla.*",
    ".var/app/com.google.Chrome*",
    ".var/app/org.chromium.*",
    "snap/firefox",
    "snap/chromium",
    "snap/thunderbird",
    ".mutt",
    ".muttrc",
    ".mbsyncrc",
    "Mail",
    "mail",
    "Maildir",
    "Library/Mail",
    "Library/Messages",
    "Library/Cookies",
    "Library/Safari",
    "Library/Application Support/Google",
    "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/com.apple.TCC",
    # What was typed.
    ".*history*",
    ".histfile",
    ".zsh_sessions",
    ".bash_sessions",
    ".lesshst",
    ".viminfo",
    ".local/share/fish/fish_history*",
    ".local/share/mc/history",
    ".local/state/*hist*",
    ".config/nushell/history*",
)


def _below(folder: str) -> tuple[str, ...]:
    """Return the places of a home that lie in ``folder``, as seen from there."""
    return tuple(
        place.removeprefix(f"{folder}/") for place in _OF_A_HOME if place.startswith(f"{folder}/")
    )


#: Of the system; most of it only root could read anyway.
_OF_THE_SYSTEM: Final = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_*_key",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/kubernetes",
    "/var/mail",
    "/var/spool/mail",
    "/var/spool/cron",
    "/run/secrets",
    "/run/credentials",
    "/boot/efi",
)

#: Variables that move such a place: what is closed of the file or folder that each names, where
#: that is not the whole.
_MOVED_BY: Final[dict[str, tuple[str, ...]]] = {
    "AWS_CONFIG_FILE": (),
    "AWS_SHARED_CREDENTIALS_FILE": (),
    "AZURE_CONFIG_DIR": (),
    "CARGO_HOME": ("credentials*",),
    "CLOUDSDK_CONFIG": (),
    "DOCKER_CONFIG": ("config.json",),
    "GH_CONFIG_DIR": (),
    "GNUPGHOME": (),
    "GOOGLE_APPLICATION_CREDENTIALS": (),
    "HISTFILE": (),
    "KUBECONFIG": (),
    "NETRC": (),
    "PASSWORD_STORE_DIR": (),
    "PGPASSFILE": (),
    "XDG_CONFIG_HOME": _below(".config"),
    "XDG_DATA_HOME": _below(".local/share"),
}
#: What lies here is the system's, whatever a variable says: `HISTFILE=/dev/null` is common.
_SYSTEM: Final = (
    "/bin",
    "/dev",
    "/gnu",
    "/lib",
    "/lib64",
    "/nix",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
)

_LEAST_UID_OF_PEOPLE: Final = 1000


@dataclass(frozen=True, slots=True)
class Closed:
    """The secret places, as real paths.

    Attributes:
        patterns: by folder, the names in it that are closed.
        parents: every folder that lies above a closed place.
    """

    patterns: Mapping[str, tuple[str, ...]]
    parents: frozenset[str]

    def holds(self, folder: str, name: str) -> bool:
        """Return whether the entry ``name`` of ``folder`` is a closed place."""
        return self.names_in(folder).match(name) is not None

    def contains(self, path: Path) -> bool:
        """Return whether ``path`` is a closed place, or lies in one."""
        return any(self.holds(os.fspath(at.parent), at.name) for at in (path, *path.parents))

    def names_in(self, folder: str) -> re.Pattern[str]:
        """Return what matches the names of the closed places in ``folder``."""
        return _any_of(self.patterns.get(folder, ()))


@lru_cache(maxsize=256)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for several patterns: a home may hold thousands of names."""
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")


def secret_places(environ: Mapping[str, str]) -> Closed:
    """Return the secret places of this machine, of the user, and (for root) of every user.

    A place that does not exist yet is one, too.
    """
    homes = [os.path.realpath(home) for home in _homes(environ)]
    named = [
        *(f"{home}/{place}" for home in homes for place in _OF_A_HOME),
        *_OF_THE_SYSTEM,
        *_moved(environ, homes),
        os.fspath(data_dir()),
    ]
    patterns: dict[str, set[str]] = {}
    real = lru_cache(maxsize=None)(os.path.realpath)
    for path in named:
        folder, _, name = path.rpartition("/")
        folder = real(folder or "/")
        patterns.setdefault(folder, set()).add(name)
        # A link is closed by its name, and what it leads to by its own.
        for place in _led_to(folder, name):
            if not any(is_within(kept, place) for kept in homes) and not _is_of_the_system(place):
                _close(patterns, place)
    _close_other_names(patterns)
    parents = {above for folder in patterns for above in _with_parents(folder)}
    return Closed(
        {folder: tuple(sorted(names)) for folder, names in patterns.items()}, frozenset(parents)
    )


def _close(patterns: dict[str, set[str]], place: str) -> None:
    folder, _, name = place.rpartition("/")
    patterns.setdefault(folder or "/", set()).add(re.sub(r"[][*?]", "?", name))


def _led_to(folder: str, pattern: str) -> Iterator[str]:
    """Yield the real paths that links lead to: a closed place itself, and what stands in it."""
    names = [pattern]
    if "*" in pattern:
        names = fnmatch.filter(_names_in(folder), pattern)
    for name in names:
        place = f"{folder.rstrip('/')}/{name}"
        if os.path.islink(place):  # noqa: PTH114 - there are many
            place = os.path.realpath(place)
            yield place
        for path in links_in(place):
            yield os.path.realpath(path)


def links_in(folder: str) -> dict[str, str]:
    """Return the links in a folder, and what each says; none where it is not a folder."""
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                found[entry.path] = os.readlink(entry.path)  # noqa: PTH115 - as above
    return found


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return []


def _close_other_names(patterns: dict[str, set[str]]) -> None:
    """Close the places where mounts show what is closed once more."""
    known = mounted_twice(mounts())
    if not known:
        return
    for folder, names in list(patterns.items()):
        for other in other_names(folder, known):
            patterns.setdefault(other, set()).update(names)
        for point in points_within(folder, known, partial(_match, _any_of(tuple(names)))):
            _close(patterns, point)


def _match(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.match(name) is not None


def _homes(environ: Mapping[str, str]) -> Iterator[str]:
    if environ.get("HOME"):
        yield environ["HOME"]
    if os.geteuid() != 0:
        # In a container a user may have a number and no account.
        with suppress(KeyError):
            yield pwd.getpwuid(os.geteuid()).pw_dir
        return
    for user in pwd.getpwall():
        if user.pw_uid == 0 or user.pw_uid >= _LEAST_UID_OF_PEOPLE:
            yield user.pw_dir


def _moved(environ: Mapping[str, str], homes: Sequence[str]) -> Iterator[str]:
    """Yield the places that variables name instead of the usual ones."""
    for variable, parts in _MOVED_BY.items():
        # KUBECONFIG may name several files.
        for path in environ.get(variable, "").split(os.pathsep):
            real = os.path.realpath(path)
            if not path.startswith("/") or _is_of_the_system(real):
                continue
            if parts:
                yield from (f"{real}/{part}" for part in parts)
            elif not any(is_within(home, real) for home in homes):
                yield real


def _is_of_the_system(path: str) -> bool:
    return any(is_within(path, folder) for folder in _SYSTEM)


def _with_parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield "/"
