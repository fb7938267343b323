"""The data dictionary, from the comments of the file itself."""

import pandas as pd
import streamlit as st

from db.study import Study
from pages.parts import words

FIRST = "tokens"  # the view to start with


def show(study: Study, height: int) -> None:
    """A search field over tables, columns and their meanings, and what it finds."""
    sought = st.text_input("Find a column", key="find", bind="query-params", placeholder="any word of a table, a column or its meaning")
    found = entries(study.dictionary, sought)
    if found.empty:
        st.info(f"No table, column or meaning holds “{words.literal(sought)}”. Try another word, or clear the field.", icon=":material/info:")
        return
    with st.container(height=height):
        st.markdown("\n".join(_line(entry) for entry in found.itertuples()))


def entries(dictionary: pd.DataFrame, sought: str) -> pd.DataFrame:
    """Rows of Study.dictionary that hold every word of `sought`, under the rows of their tables, the view `tokens` first."""
    text = dictionary["table_name"] + " " + dictionary["column_name"] + " " + dictionary["comment"].fillna("")
    hit = pd.Series(True, index=dictionary.index)
    for word in sought.split():
        hit &= text.str.contains(word, case=False, regex=False)
    is_table = dictionary["column_name"].eq("")
    kept = dictionary[hit | is_table & dictionary["table_name"].isin(dictionary.loc[hit, "table_name"])]
    return kept.sort_values("table_name", key=lambda names: names.ne(FIRST), kind="stable")


def _line(entry: tuple) -> str:
    meaning = words.literal(entry.comment) if pd.notna(entry.comment) else ""
    if not entry.column_name:
        return f"\n##### {words.literal(entry.table_name)}\n{meaning}\n"
    return f"- `{entry.column_name}` :small[:gray[{entry.data_type}]] {meaning}"
