"""Tokens: which token types go deep, and one token's occurrences at its different depths."""

import pandas as pd
import streamlit as st

from db import conditions
from db.study import Study
from pages.parts import choices, exhibit, filters, shell, tokens, words
from pages.parts.answers import ask

TITLE = "Which words go deep?"
QUESTION = (
    "Every token type that occurs often enough, with the mean **depth** its occurrences get. Choose one, in the chart or in the "
    "table, to read it in context: the same token at different depths."
)
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
    order = st.segmented_control("First", list(tokens.ORDERS), default="deepest", required=True, key="order", bind="query-params")
    return checkpoint, minimum, order, search


def show_list(study: Study, checkpoint: str, minimum: int, order: str, search: str, where: str | None) -> list[int]:
    """The scatter and the table; the ids of the tokens in them come back, in order."""
    found = ask(study, "tokens", checkpoint, minimum, where)
    frame = tokens.ordered(found, order, search)
    if frame.empty:
        st.info(NOT_FOUND.format(minimum=minimum), icon=":material/info:")
        return []
    sentence = tokens.extremes(found, minimum)
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
        sql=study.statement("token_sums", where, checkpoint=checkpoint),
        alternative=words.plain(sentence),
        pick=lambda point: _choose_token(point["token_id"]),
        row=lambda row: _choose_token(row["token_id"]),
    )
    return frame["token_id"].tolist()


def _column(frame: pd.DataFrame, name: str, label: str):
    whole = not pd.api.types.is_float_dtype(frame[name])
    return label if name == "shown" else st.column_config.NumberColumn(label, format="localized" if whole else "%.3f")


def _choose_token(token_id: int) -> None:
    st.session_state["token_id"] = int(token_id)


def show_card(study: Study, checkpoint: str, ids: list[int], where: str | None) -> None:
    texts = study.texts
    chosen = st.session_state.get("token_id")
    options = ids if chosen in ids or chosen not in texts.index else [chosen, *ids]
    token_id = st.selectbox("Token", options, format_func=lambda id: tokens.shown(texts.get(id), id), key="token_id", bind="query-params", width=320)
    own = conditions.all_of([where, conditions.one_of("token_id", [token_id])])
    frame = ask(study, "depths", checkpoint, own)
    if not frame["n"].sum():
        st.info(exhibit.FILTERED, icon=":material/info:")
        return
    sentence = tokens.card(frame, f"“{words.literal(tokens.shown(texts.get(token_id), token_id))}”")
    st.markdown(sentence)
    measure = st.segmented_control("By depth, its", list(tokens.MEASURES), default="depth", required=True, key="measure", bind="query-params")
    exhibit.show(
        study,
        frame,
        tokens.by_depth(frame, tokens.MEASURES[measure]) if frame[tokens.MEASURES[measure]].notna().any() else None,
        name="token",
        caption=f"n = {frame['n'].sum():,} occurrences. {words.about_intervals(frame.loc[frame['n'] > 0, 'sequences'])}",
        origin="exploratory",
        where=where,
        table=tokens.card_table(frame),
        sql=study.statement("group_sums", own, checkpoint=checkpoint, scale="loss", columns=["vanilla_loss", "benefit"]),
        alternative=words.plain(sentence),
    )
    show_occurrences(study, checkpoint, token_id, where)


def show_occurrences(study: Study, checkpoint: str, token_id: int, where: str | None) -> None:
    st.subheader("The same token at different depths", anchor=False)
    each = st.number_input("Occurrences of each depth", 1, 200, 8, key="each", bind="query-params", width=200)
    found = tokens.with_links(ask(study, "occurrences", checkpoint, token_id, each, 12, where), checkpoint, st.query_params.to_dict())
    st.html(tokens.lines(found))
    with st.expander("As a table"):
        exhibit.show(
            study,
            found,
            name="occurrences",
            caption=f"{len(found):,} of {found.groupby('depth')['at_depth'].first().sum():,} occurrences, drawn evenly from all over the file.",
            origin="exploratory",
            where=where,
            columns=dict.fromkeys(["depth", "sequence", "position", "before", "token", "after", "vanilla_loss", "benefit"])
            | {"passage": st.column_config.LinkColumn("passage", display_text="open")},
            sql=study.statement("occurrences", where, checkpoint=checkpoint, token_id=token_id, each=each, reach=12),
        )


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed:
        st.info(choices.NO_ROUTER, icon=":material/info:")
        st.stop()
    checkpoint, minimum, order, search = choose(study)
    ids = show_list(study, checkpoint, minimum, order, search, where)
    if ids or st.session_state.get("token_id") is not None:
        st.header("One token", anchor=False)
        show_card(study, checkpoint, ids, where)
