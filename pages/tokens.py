"""Tokens: which token types go deep, and one token's occurrences at its different depths."""

import pandas as pd
import streamlit as st

from db.study import Study
from pages.parts import card, choices, exhibit, filters, reading, shell, tokens, words
from pages.parts.answers import ask

TITLE = "Which words go deep?"
QUESTION = (
    "Every token type that occurs often enough, with the mean **depth** its occurrences get. Choose one, in the chart or in the "
    "table, to read it in context: the same token at different depths."
)
HOW = """
A token's *mean depth* is that of its scored occurrences, those with a next token, within the filter. Its *mean vanilla loss* is how
badly the reference predicts what follows it. *Benefit* is the loss when every token stops after one recursion, minus the loss when every
token runs all of them. Occurrences in context are drawn by a fixed rule, the same for every reader.
"""
COLUMNS = {
    "shown": "token",
    "n": "n",
    "mean_depth": "mean depth",
    "sd_depth": "spread of depth",
    "mean_vanilla_loss": "mean vanilla loss, nats",
    "mean_vanilla_entropy": "mean vanilla entropy, nats",
    "mean_benefit": "mean benefit, nats",
}
NOT_FOUND = "No token type fits: none occurs {minimum:,} times within the filter or holds what you search. Ask for fewer occurrences, or clear the search or the filter."


def choose(study: Study) -> tuple[str, int, str, str]:
    """Checkpoint, least occurrences, order and what to search."""
    left, middle, right = st.columns([2, 1.3, 2])
    with left:
        checkpoint = choices.checkpoint(study)
    with middle:
        minimum = choices.minimum(study)
    with right:
        search = st.text_input("Search these tokens", key="search", bind="query-params", placeholder="part of a token")
    order = st.segmented_control("Sort by", list(tokens.ORDERS), default="deepest", required=True, key="order", bind="query-params")
    return checkpoint, minimum, order, search


def show_list(study: Study, checkpoint: str, minimum: int, order: str, search: str, where: str | None) -> list[int]:
    """The scatter and the table; the ids of the tokens in them come back, the most common first."""
    found = ask(study, "tokens", checkpoint, minimum, where)
    frame = tokens.ordered(found, order, search)
    if frame.empty:
        st.info(NOT_FOUND.format(minimum=minimum), icon=":material/info:")
        return []
    sentence = tokens.extremes(found, minimum) + (f" {len(frame):,} of them hold “{words.literal(search)}”." if search else "")
    st.markdown(sentence)
    levels = {name: f"at depth {name.removeprefix('occurrences_depth_')}" for name in frame if name.startswith("occurrences_depth_")}
    exhibit.show(
        study,
        frame,
        tokens.scatter(frame, study.recursions(checkpoint)),
        name="tokens",
        caption=f"n = {frame['n'].sum():,} positions of {len(frame):,} token types under {checkpoint}. Spread: standard deviation over a token's occurrences.",
        origin="exploratory",
        where=where,
        columns={name: _column(frame, name, label) for name, label in (COLUMNS | levels).items()},
        sql=study.statement("shown_tokens", where, checkpoint=checkpoint, minimum=minimum),
        alternative=words.plain(sentence),
        pick=lambda point: card.choose(point["token_id"]),
        row=lambda row: card.choose(row["token_id"]),
    )
    return frame.sort_values(["n", "token_id"], ascending=[False, True])["token_id"].tolist()


def _column(frame: pd.DataFrame, name: str, label: str):
    whole = not pd.api.types.is_float_dtype(frame[name])
    return label if name == "shown" else st.column_config.NumberColumn(label, format="localized" if whole else "%.3f")


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed:
        st.info(choices.NO_ROUTER, icon=":material/info:")
        st.stop()
    checkpoint, minimum, order, search = choose(study)
    with st.spinner("Computing …", show_time=True):
        ids = show_list(study, checkpoint, minimum, order, search, where)
        card.show(study, checkpoint, ids, where)
    reading.show(study, [checkpoint], where, HOW)
