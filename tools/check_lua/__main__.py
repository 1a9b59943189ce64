"""Check the Lua of the Neovim plugin: luacheck, and StyLua as WebAssembly from npm.

``--fix`` formats. What is not there is skipped, and a line on standard error says what and why.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "editors" / "nvim"
FORMAT = Path(__file__).with_name("format.mjs")

#: Where StyLua is installed to, once.
STYLUA = Path(sys.prefix) / "stylua"
VERSION = "2.5.2"


def main(arguments: list[str]) -> int:
    """Return the exit status: 0 where all that is there is content."""
    fix = "--fix" in arguments
    files = sorted(str(path) for path in PLUGIN.rglob("*.lua"))
    results = [check_style(files, fix=fix)]
    if not fix:
        results.append(check_code())
    return int(not all(results))


def check_code() -> bool:
    """Return whether luacheck finds nothing."""
    luacheck = shutil.which("luacheck")
    if luacheck is None:
        skipped("luacheck is not installed (Debian: apt-get install lua-check)")
        return True
    config = PLUGIN / ".luacheckrc"
    done = subprocess.run([luacheck, "-q", "--no-color", "--config", config, PLUGIN], check=False)
    return done.returncode == 0


def check_style(files: list[str], *, fix: bool) -> bool:
    """Return whether the files are formatted; with ``fix`` they are from now on."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        skipped("StyLua needs Node and npm")
        return True
    package = f"@johnnymorganz/stylua@{VERSION}"
    if not (STYLUA / "node_modules").is_dir():
        install = [npm, "install", "--silent", "--ignore-scripts", "--prefix", STYLUA, package]
        if subprocess.run(install, check=False, capture_output=True, timeout=120).returncode:
            skipped(f"npm does not install {package}")
            return True
    check = [] if fix else ["--check"]
    done = subprocess.run(
        [node, FORMAT, STYLUA, *check, *files], check=True, capture_output=True, text=True
    )
    if done.stdout and not fix:
        sys.stderr.write(f"not formatted (./dev fix does it):\n{done.stdout}")
    return fix or not done.stdout


def skipped(why: str) -> None:
    """Tell what was not checked."""
    sys.stderr.write(f"SKIPPED: {why}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
