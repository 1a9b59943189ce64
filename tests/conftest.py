"""What holds for all tests: a user without a home, keys, settings or model servers to find."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import fork_server
import pytest
from hypothesis import settings

# Else each worker, and each process that a test starts, compiles all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# For each request httpcore tries to import it anew, and looks through all folders of ``sys.path``,
# of which tests have thirty.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # the import system's word for: none

# A loaded machine is no fault of the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
# For `./dev quick`: what says itself how many examples it wants keeps them.
settings.register_profile("quick", deadline=None, max_examples=15)


def pytest_configure(config: pytest.Config) -> None:
    """Empty the environment that tests and the processes they start see."""
    home = Path(tempfile.mkdtemp(prefix="aish-home-"))
    config.add_cleanup(lambda: _remove(home))
    for name in list(os.environ):
        if name in ("AISH_SHARED", "AISH_FULL", "AISH_REAL_START"):
            # They are for the tests themselves; a server would tell of a variable unknown to it.
            os.environ[name.replace("AISH", "TESTS")] = os.environ.pop(name)
            continue
        ours = name.startswith(("AISH_", "XDG_"))
        if ours or name.endswith("_API_KEY"):
            del os.environ[name]
    if not hasattr(config, "workerinput"):
        fork_server.begin(home)
    os.environ.update(HOME=str(home), AISH_DATA_DIR=str(home / "data"), AISH_DISCOVERY="off")
    fork_server.environment = dict(os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what lives until the end: it takes a third of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that holds the user's home, data and configuration for one test alone."""
    for name in ("HOME", "AISH_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AISH_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fork the servers of a test, where it is not about how they start."""
    starts = item.get_closest_marker("real_start") or os.environ.get("TESTS_REAL_START") == "1"
    fork_server.wanted = not starts


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three times as many workers as there are processors: most slow tests wait."""
    processors = os.cpu_count() or 1
    return processors if config.option.markexpr == "not slow" else processors * 3


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
