"""The card of one token: how its occurrences spread over depths, and some of them in context."""

import pandas as pd
import streamlit as st

from db import conditions
from db.study import Study
from pages.parts import choices, exhibit, tokens, words
from pages.parts.answers import ask

REACH = 12  # tokens of context on either side
KEY = "token_id"  # in the session, and in the URL
COLUMNS = dict.fromkeys(["depth", "sequence", "position", "before", "token", "after", "vanilla_loss", "benefit"])
COLUMNS |= {"passage": st.column_config.LinkColumn("passage", display_text="open")}


def choose(token_id: int) -> None:
    """Makes it the card of this token: for callbacks."""
    st.session_state[KEY] = int(token_id)


def show(study: Study, checkpoint: str, ids: list[int], where: str | None) -> None:
    """The card of the token asked for, listed or not, else of the first of `ids`; nothing where there is neither."""
    asked = _asked(study.texts, ids)
    if asked is None:
        return
    st.header("One token", anchor=False)
    token_id = _ask(study.texts, asked, ids if asked in ids else [asked, *ids])
    own = conditions.all_of([where, conditions.one_of("token_id", [token_id])])
    frame = ask(study, "depths", checkpoint, own)
    if not frame["n"].sum():
        st.info(exhibit.FILTERED if where else "It occurs nowhere before a token to predict.", icon=":material/info:")
        return
    _show_depths(study, checkpoint, frame, f"“{words.literal(tokens.shown(study.texts[token_id], token_id))}”", where, own)
    _show_occurrences(study, checkpoint, token_id, where)


def _asked(texts: pd.Series, ids: list[int]) -> int | None:
    """The token chosen in this session, else that of the URL, else the first listed."""
    linked = st.query_params.get(KEY, "")
    candidates = [st.session_state.get(KEY), int(linked) if linked.isdecimal() else None, *ids[:1]]
    return next((id for id in candidates if id in texts.index), None)


def _ask(texts: pd.Series, asked: int, options: list[int]) -> int:
    """A widget bound to the URL would put the token's text there, which two tokens may share: this puts the id."""
    st.session_state[KEY] = asked
    token_id = st.selectbox("Token", options, format_func=lambda id: tokens.shown(texts[id], id), key=KEY, width=320)
    st.query_params[KEY] = str(token_id)
    return token_id


def _show_depths(study: Study, checkpoint: str, frame: pd.DataFrame, name: str, where: str | None, own: str) -> None:
    sentence = tokens.card(frame, name)
    st.markdown(sentence)
    measure = st.segmented_control("By depth, its", list(tokens.MEASURES), default="depth", required=True, key="measure", bind="query-params")
    value = tokens.MEASURES[measure]
    exhibit.show(
        study,
        frame,
        tokens.by_depth(frame, value) if frame[value].notna().any() else None,
        name="token",
        caption=f"n = {frame['n'].sum():,} occurrences. {words.about_intervals(frame.loc[frame['n'] > 0, 'sequences'])}",
        origin="exploratory",
        where=where,
        table=tokens.card_table(frame),
        sql=study.statement("shown_depths", own, checkpoints=[checkpoint]),
        alternative=words.plain(sentence),
    )


def _show_occurrences(study: Study, checkpoint: str, token_id: int, where: str | None) -> None:
    st.subheader("The same token at different depths", anchor=False)
    each = st.number_input("Occurrences of each depth", 1, 200, 8, key="each", bind="query-params", width=200)
    st.caption("A line opens its passage.")
    found = tokens.with_links(ask(study, "occurrences", checkpoint, token_id, each, REACH, where), checkpoint, choices.carried())
    st.html(tokens.lines(found))
    with st.expander("As a table"):
        exhibit.show(
            study,
            found,
            name="occurrences",
            caption=f"{len(found):,} of {found.groupby('depth')['at_depth'].first().sum():,} occurrences, drawn evenly from all over the file.",
            origin="exploratory",
            where=where,
            columns=COLUMNS,
            sql=study.statement("occurrences", where, checkpoint=checkpoint, token_id=token_id, each=each, reach=REACH),
        )
