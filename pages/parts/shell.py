"""What every page shares: the window, the sidebar, the open study, and how a user's error is shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

import db
from db.errors import UserError
from db.study import Study
from pages.parts import files, welcome, words, work

NAMES = ("overview", "passage", "deciles", "tokens", "lexical", "routing", "sql", "about")
TITLES = {"sql": "SQL", "about": "About the data"}  # where the name itself is no title


def navigation() -> st.Page:
    """The window and the list of pages; the page to run comes back.

    Every page draws it too: the first link into a fresh server may reach a page past app.py, because
    Streamlit takes a folder called pages for its older kind of app until it is told otherwise.
    """
    st.set_page_config(page_title="Depthscope", layout="wide")
    home = st.Page(_home, default=True, visibility="hidden")
    return st.navigation([home, *map(page_of, NAMES)])


def page_of(name: str) -> st.Page:
    return st.Page(files.ROOT / "pages" / f"{name}.py", title=TITLES.get(name, name.capitalize()), url_path=name)


def _home() -> None:
    """The bare address leads on to the first page, so that every page's address is its file's name."""
    st.switch_page(page_of(NAMES[0]), query_params=st.query_params.to_dict())


@contextmanager
def page(title: str, question: str) -> Iterator[Study]:
    """The study to show under a title and the question that the page answers.

    Without a file the page explains itself and offers the demo instead. A UserError of the page
    becomes one sentence on it.
    """
    navigation()
    work.enter(title)
    paths = files.found()
    if not paths:
        welcome.show()
        st.stop()
    study = _open(_choose(paths))
    st.title(title, anchor=False)
    st.markdown(question)
    try:
        yield study
    except UserError as error:
        _show(error)


def _choose(paths: list[Path]) -> Path:
    """The file chosen in the sidebar, in the URL as ?file=."""
    by_name = {path.stem: path for path in paths}
    with st.sidebar:
        return by_name[st.selectbox("File", list(by_name), key="file", bind="query-params")]


def _open(path: Path) -> Study:
    """The study at `path` as it is now. A query that this session left running for an earlier run is stopped."""
    if earlier := st.session_state.get("study"):
        earlier.stop()
    try:
        study = st.session_state["study"] = db.open(path)
    except UserError as error:
        _show(error)
        st.stop()
    return study


def _show(error: UserError) -> None:
    st.error(words.literal(str(error)), icon=":material/error:")
