"""Builds the demo in a child process, one for the whole server, and follows its progress."""

import atexit
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.parts import files

COMMAND = [sys.executable, "-m", "precompute", "demo"]
# precompute's progress, a line for each state: "expert-3:  40% 80/200 sequences, 3.1 sequences/s, 00:38 left"
LINE = re.compile(r"(?P<stage>.+?): +(?P<percent>\d+)% (?P<done>\S+ [^,]+),.*?(?P<left>\S+) left")


@dataclass(frozen=True)
class Progress:
    """How far the build is: the share of its present stage, 0 to 1, and the same in words."""

    share: float
    text: str


class Build:
    """A running or finished build."""

    def __init__(self, command: list[str]) -> None:
        self._log = Path(tempfile.mkstemp(prefix="depthscope-demo-", suffix=".log")[1])
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=files.ROOT, stdout=subprocess.DEVNULL, stderr=log)
        atexit.register(self._process.terminate)  # a build must not outlive the server; the next one goes on from what it did

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def failure(self) -> str | None:
        """The last thing a failed build said."""
        if self.running or self._process.returncode == 0:
            return None
        return (self._lines() or ["The build ended without a word; run it in a terminal: python -m precompute demo"])[-1].removeprefix("error: ")

    def progress(self) -> Progress:
        """The last progress it wrote."""
        found = [match for match in map(LINE.fullmatch, self._lines()) if match]
        if not found:
            return Progress(0.0, "Starting …")
        last = found[-1]
        left = f", {last['left']} left" if ":" in last["left"] else ""  # it begins with a question mark
        return Progress(int(last["percent"]) / 100, f"{last['stage']}: {last['done']}{left}")

    def _lines(self) -> list[str]:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@st.cache_resource
def _builds() -> list[Build]:
    """Every build since the server started, the last one last."""
    return []


def current() -> Build | None:
    """The last build, if there is one."""
    return _builds()[-1] if _builds() else None


def start() -> None:
    """Starts the build unless it runs already."""
    if not (current() and current().running):
        _builds().append(Build(COMMAND))
