"""The app as a reader meets it: written files, running servers, and a real headless Chromium."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from streamlit.testing.v1 import AppTest

from tests.pages import studies

ROOT = Path(__file__).parents[2]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60_000  # milliseconds that a busy machine is given to show what is expected
# Streamlit looks for its server under the address of a page before it looks at the root.
PROBES = ("/_stcore/health", "/_stcore/host-config")

expect.set_options(timeout=PATIENCE)


def _fixture(name: str):
    @pytest.fixture(scope="session", name=f"{name}_file")
    def written(tmp_path_factory) -> Path:
        return getattr(studies, name)(tmp_path_factory.mktemp(name))

    return written


study_file, alone_file, vanilla_file, long_file = map(_fixture, ("study", "alone", "vanilla", "long"))


@pytest.fixture(scope="session")
def other_file(tmp_path_factory) -> Callable[[str], Path]:
    """The file of one of studies.OTHERS, written once."""
    return cache(lambda name: studies.other(tmp_path_factory.mktemp("other"), name))


@pytest.fixture
def tree(tmp_path) -> Path:
    """A copy of the project without any database, for tests that put their own into its folder db."""
    for name in ("pages", "db", "precompute", ".streamlit"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.duckdb*", "__pycache__"))
    shutil.copy(ROOT / "app.py", tmp_path)
    return tmp_path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium, whose contexts each begin with nothing."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(**_options())
        yield launched
        launched.close()


def _options() -> dict[str, Any]:
    """How to launch the system's Chromium, else playwright's own."""
    return {"executable_path": next(filter(None, map(shutil.which, CHROMIUMS)), None), "args": ["--no-sandbox"]}


@contextmanager
def server(*arguments: str, root: Path = ROOT) -> Iterator[str]:
    """The address of `streamlit run app.py -- ARGUMENTS`, run in the folder `root`."""
    with process(*arguments, root=root) as (address, _):
        yield address


@contextmanager
def process(*arguments: str, root: Path = ROOT, threads: str | None = "1") -> Iterator[tuple[str, int]]:
    """The address of a server and the id of its process. `threads`: of numpy, None for as many as it likes."""
    port = _free_port()
    options = ["--server.port", str(port), "--server.headless", "true", "--server.fileWatcherType", "none"]
    environment = {**os.environ, **({"OMP_NUM_THREADS": threads} if threads else {})}
    started = subprocess.Popen([sys.executable, "-m", "streamlit", "run", "app.py", *options, "--", *arguments], cwd=root, env=environment)
    try:
        _wait(f"http://localhost:{port}/_stcore/health", started)
        yield f"http://localhost:{port}", started.pid
    finally:
        started.terminate()
        started.wait()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """The address of a server that shows a file; one server a file."""
    with ExitStack() as running:
        yield cache(lambda path: running.enter_context(server("--db", str(path))))


@pytest.fixture
def start() -> Iterator[Callable[..., str]]:
    """The address of a server of the test's own; takes what `server` takes."""
    with ExitStack() as running:
        yield lambda *arguments, **options: running.enter_context(server(*arguments, **options))


@pytest.fixture(scope="session")
def window(tmp_path_factory) -> Iterator[BrowserContext]:
    """Where pages open: they share what the browser has loaded and compiled of Streamlit itself, and nothing else."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(tmp_path_factory.mktemp("profile"), **_options())
        context.set_default_timeout(PATIENCE)
        yield context
        context.close()


@pytest.fixture
def visit(window, start) -> Iterator[Callable[..., Page]]:
    """Opens an address as a new reader; see `opened`. Its pages are closed before the test's own servers end."""
    with ExitStack() as pages:
        yield lambda *arguments, **options: pages.enter_context(opened(window, *arguments, **options))


@contextmanager
def opened(window: BrowserContext, url: str, ready: str = "h1", width: int = 1400, height: int = 900, dark: bool = False) -> Iterator[Page]:
    """An address as a new reader sees it. Fails in the end where the console showed an error or a request left this computer."""
    complaints: list[str] = []
    with closing(window.new_page()) as page:
        page.on("console", lambda message: message.type == "error" and not _is_probe(message.location["url"]) and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: _leaves(request.url) and complaints.append(request.url))
        page.add_init_script("localStorage.clear()")
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(url)
        page.wait_for_selector(ready)
        yield page
    window.clear_cookies()
    assert complaints == []


@pytest.fixture
def app(monkeypatch) -> Callable[..., AppTest]:
    """Runs app.py or a page alone on a file."""

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page there, and later processes would run it

    def run(script: str, path: Path | None, **query: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", *(["--db", str(path)] if path else [])])
        test = AppTest.from_file(str(ROOT / script), default_timeout=60)
        test.query_params.update(query)
        return test.run()

    return run


def _is_probe(url: str) -> bool:
    return url.endswith(PROBES)


def _leaves(url: str) -> bool:
    return not url.startswith(("http://localhost:", "ws://localhost:", "data:", "blob:"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def _wait(url: str, process: subprocess.Popen) -> None:
    while process.poll() is None:
        try:
            return urllib.request.urlopen(url).close()
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server ended before it answered")
