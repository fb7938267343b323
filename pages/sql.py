"""SQL: a question of the reader's own, beside the dictionary of the file."""

import streamlit as st

from db.errors import UserError
from db.limits import SECONDS
from db.query import examples
from db.sql import Answer
from db.study import Study
from pages.parts import dictionary, exhibit, plot, shell, sql, words, work

TITLE = "What else does the file say?"
QUESTION = (
    "Everything on the other pages comes from one DuckDB file, and any question can be put to it in SQL. "
    "Start from an example or from the view `tokens`: one row is a token at its place in the text, with its depth and its losses."
)
HEIGHT = 560
PLAN = ["explain_key", "explain_value"]
LETTERS = "<style>.st-key-query textarea { font-family: monospace; font-size: 0.9rem; }</style>"


def fill(text: str) -> None:
    """Puts a query into the editor; the page answers whatever stands there."""
    st.session_state["query"] = text


def editor() -> tuple[str, bool]:
    """The query, and whether it is to run even if it ran before."""
    if "query" not in st.session_state and (asked := st.session_state.get("asked")):
        fill(asked.text)
    st.html(LETTERS)
    with st.form("editor", border=False):
        text = st.text_area("SQL", key="query", bind="query-params", height=220, placeholder="select …")
        run = st.form_submit_button("Run", type="primary", icon=":material/play_arrow:", help="Or Ctrl + Enter in the editor")
    st.caption(sql.LIMITS)
    return text.strip(), run


def show_answer(study: Study, text: str, run: bool) -> None:
    asked = sql.ask(study, text, run)
    if not work.finished(asked.work, SECONDS):
        return
    try:
        found = asked.work.result()
    except UserError as error:
        show_error(str(error))
    else:
        show_rows(study, found)


def show_error(said: str) -> None:
    """DuckDB's own words, which point at the place in a line below."""
    first, _, rest = said.partition("\n")
    st.error(words.literal(first), icon=":material/error:")
    if rest.strip():
        st.code(rest.strip("\n"), None)


def show_rows(study: Study, found: Answer) -> None:
    st.caption(sql.counted(found))
    if not found.table.num_rows:
        st.info("No row answers this query. Loosen its conditions, or look at what the columns hold: summarize observations", icon=":material/info:")
        return
    if found.table.column_names == PLAN:
        st.code(found.table.column(PLAN[1])[0].as_py(), None)
    else:
        st.dataframe(sql.shown(found.table), hide_index=True)
    left, right, _ = st.columns([1, 1, 2])
    left.download_button("CSV", lambda: exhibit.csv(sql.frame(found.table)), "query.csv", "text/csv", on_click="ignore", icon=":material/download:", width="stretch")
    right.download_button("Parquet", lambda: sql.parquet(found.table), "query.parquet", on_click="ignore", icon=":material/download:", width="stretch")
    plot.show(study, found.table)


def show_beside(study: Study) -> None:
    questions, columns, earlier = st.tabs(["Examples", "Dictionary", "History"])
    with questions:
        for example in examples():
            st.button(example.row, on_click=fill, args=[example.sql], key=f"example_{example.name}", width="stretch")
    with columns:
        dictionary.show(study, HEIGHT)
    with earlier:
        show_history()


def show_history() -> None:
    if not sql.history():
        st.caption("Queries of this session stand here once another one was asked.")
    for number, (text, outcome) in enumerate(sql.history()):
        st.code(text, "sql", wrap_lines=True)
        st.button(words.literal(outcome), on_click=fill, args=[text], key=f"history_{number}", help="Ask it again", icon=":material/history:", type="tertiary")


with shell.page(TITLE, QUESTION) as study:
    left, right = st.columns([3, 2], gap="large")
    with left:
        text, run = editor()
        if text:
            show_answer(study, text, run)
    with right:
        show_beside(study)
