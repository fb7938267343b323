"""Work that goes on beside a page: in a thread, with a Stop button, for as long as somebody looks at it."""

import threading
import time
from collections.abc import Callable
from typing import Any

import streamlit as st


AT_ONCE = 0.5  # seconds that a page waits before it shows that it waits
LOOKS = 0.4  # seconds between two looks of a page
PATIENCE = 10.0  # seconds without a look after which the tab is taken for closed


class Work:
    """What `do` returns, made in a thread. `stop` ends it from outside; it is called when nobody has looked for so many seconds.

    A closed tab tells the server nothing else.
    """

    def __init__(self, do: Callable[[], Any], stop: Callable[[], None], patience: float = PATIENCE) -> None:
        self._do, self._stop, self._patience = do, stop, patience
        self._ended = threading.Event()
        self._answer: Any = None
        self._error: Exception | None = None
        self._began = self._seen = time.monotonic()
        for part in (self._run, self._watch):
            threading.Thread(target=part, daemon=True).start()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def look(self) -> None:
        """Somebody still waits for it."""
        self._seen = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Whether it ended within so many seconds."""
        return self._ended.wait(seconds)

    def stop(self) -> None:
        """End it; its result is then whatever error `do` raises."""
        if self.running:
            self._stop()

    def result(self) -> Any:
        """The answer, once it has ended. Raises what `do` raised."""
        if self._error:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._do()
        except Exception as error:  # it is raised where the result is asked for
            self._error = error
        finally:
            self._ended.set()

    def _watch(self) -> None:
        while not self.wait(LOOKS):
            if time.monotonic() - self._seen > self._patience:
                self.stop()


def enter(page: str) -> None:
    """A run of this page begins: what the page before it was waiting for is stopped."""
    if st.session_state.get("entered") != page and (left := st.session_state.pop("watched", None)):
        left.stop()
    st.session_state["entered"] = page


def finished(work: Work, limit: float) -> bool:
    """Whether it has ended; until then the page shows how long it runs, of `limit` seconds, and a Stop button."""
    st.session_state["watched"] = work
    work.look()
    if work.wait(AT_ONCE):
        return True
    _show(work, limit)
    return False


@st.fragment(run_every=LOOKS)
def _show(work: Work, limit: float) -> None:
    work.look()
    if not work.running:
        st.rerun()
    bar, button = st.columns([4, 1], vertical_alignment="center")
    bar.progress(min(1.0, work.seconds / limit), text=f"Running for {work.seconds:.0f} s of at most {limit:g} s")
    button.button("Stop", on_click=work.stop, key="stop", icon=":material/stop_circle:", width="stretch")
