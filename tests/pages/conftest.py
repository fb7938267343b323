"""The app as a reader meets it: written files, running servers, and a real headless Chromium."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from streamlit.testing.v1 import AppTest

from tests.pages import studies

ROOT = Path(__file__).parents[2]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
# Streamlit looks for its server under the address of a page before it looks at the root.
PROBES = ("/_stcore/health", "/_stcore/host-config")


def _fixture(name: str):
    @pytest.fixture(scope="session", name=f"{name}_file")
    def written(tmp_path_factory) -> Path:
        return getattr(studies, name)(tmp_path_factory.mktemp(name))

    return written


study_file, alone_file, vanilla_file, long_file = map(_fixture, ("study", "alone", "vanilla", "long"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def server(*arguments: str, root: Path = ROOT) -> Iterator[str]:
    """The address of `streamlit run app.py -- ARGUMENTS`, run in the folder `root`."""
    port = _free_port()
    options = ["--server.port", str(port), "--server.headless", "true", "--server.fileWatcherType", "none"]
    process = subprocess.Popen([sys.executable, "-m", "streamlit", "run", "app.py", *options, "--", *arguments], cwd=root)
    try:
        _wait(f"http://localhost:{port}/_stcore/health", process)
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """The address of a server that shows a file; one server a file."""
    running: dict[Path, tuple] = {}

    def address(path: Path) -> str:
        if path not in running:
            manager = server("--db", str(path))
            running[path] = (manager.__enter__(), manager)
        return running[path][0]

    yield address
    for _, manager in running.values():
        manager.__exit__(None, None, None)


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Page]]:
    """Opens an address in a fresh browser; the test fails where the console showed an error or a request left this computer."""
    opened, complaints = [], []

    def open_(url: str, ready: str = "h1", width: int = 1400, height: int = 900, dark: bool = False) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and not _is_probe(message.location["url"]) and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: _leaves(request.url) and complaints.append(request.url))
        page.goto(url)
        page.wait_for_selector(ready)
        return page

    yield open_
    for context in opened:
        context.close()
    assert complaints == []


@pytest.fixture
def app(monkeypatch) -> Callable[..., AppTest]:
    """Runs app.py or a page alone on a file."""

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
