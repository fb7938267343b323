"""One ad-hoc SELECT beside the page: asked once, watched, stopped, remembered for the session."""

import io
import threading

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import streamlit as st

from db import child, limits, sql
from db.errors import UserError
from db.sql import Answer, Statement
from db.study import Study
from pages.parts.work import Work

AT_ONCE = 2  # statements that the server runs at once, for all its readers
PATIENCE = 10.0  # seconds that a statement waits for its turn
SHOWN = 8 << 20  # bytes of an answer that are sent to the browser
KEPT = 30  # earlier queries that a session remembers
LIMITS = (
    f"One SELECT or EXPLAIN over this file and nothing else, in a process of its own: at most {limits.SECONDS:g} seconds, "
    f"{limits.ADDRESS_SPACE >> 30} GB of memory, the first {sql.ROWS:,} rows and {child.BYTES >> 20} MB of them."
)
_turns = threading.BoundedSemaphore(AT_ONCE)


class Asked:
    """A query that was asked of one version of a file."""

    def __init__(self, study: Study, text: str) -> None:
        self.text, self.signature = text, study.signature
        self.outcome = "stopped"  # what became of it, in a few words
        self._statement = Statement(study.path, text)
        self.work = Work(self._answer, self._statement.stop)

    def is_same(self, study: Study, text: str) -> bool:
        return (self.text, self.signature) == (text, study.signature)

    def _answer(self) -> Answer:
        if not _turns.acquire(timeout=PATIENCE):
            self._statement.stop()
            raise UserError(f"{AT_ONCE} queries of other readers run on this server; try again in a moment.")
        try:
            found = self._statement.answer()
        except UserError as error:
            self.outcome = str(error).splitlines()[0]
            raise
        finally:
            _turns.release()
        self.outcome = outcome(found)
        return found


def ask(study: Study, text: str, again: bool) -> Asked:
    """The query as it runs or ran for this session; a new one, or `again`, stops the last and takes its place."""
    latest: Asked | None = st.session_state.get("asked")
    if latest and latest.is_same(study, text) and not again:
        return latest
    if latest:
        latest.work.stop()
        remember(latest)
    st.session_state["asked"] = Asked(study, text)
    return st.session_state["asked"]


def remember(asked: Asked) -> None:
    """Puts the query in front of the history, once."""
    others = [entry for entry in history() if entry[0] != asked.text]
    st.session_state["history"] = [(asked.text, asked.outcome), *others][:KEPT]


def history() -> list[tuple[str, str]]:
    """What was asked in this session before the query on the page, the last first: its text and what became of it."""
    return st.session_state.get("history", [])


def outcome(found: Answer) -> str:
    """How many rows it gave, and how long it took."""
    return f"{found.table.num_rows:,} {'row' if found.table.num_rows == 1 else 'rows'} in {found.seconds:.2f} s"


def counted(found: Answer) -> str:
    """The same as sentences, with what is not there or not shown."""
    parts = [f"Only the first {outcome(found)}; narrow the query to see all." if found.is_truncated else f"{outcome(found)}."]
    if (rows := shown(found.table).num_rows) < found.table.num_rows:
        parts.append(f"The table shows {rows:,} of them, the files hold all.")
    return " ".join([*parts, "Exploratory."])


def shown(table: pa.Table) -> pa.Table:
    """As many of the first rows as a browser should be sent."""
    return table.slice(0, max(1, table.num_rows * SHOWN // max(SHOWN, table.nbytes)))


def frame(table: pa.Table) -> pd.DataFrame:
    """The rows as pandas, whole numbers whole even where some are missing."""
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def parquet(table: pa.Table) -> bytes:
    """The rows as a Parquet file."""
    file = io.BytesIO()
    pa.parquet.write_table(table, file)
    return file.getvalue()
