"""Deciles: depth, and what depth buys, from the easiest tenth of the text to the hardest."""

import pandas as pd
import streamlit as st

from db.study import Study
from pages.parts import charts, shell, tables, words
from pages.parts.answers import deciles

TITLE = "Do harder tokens go deeper?"
QUESTION = (
    "Every position of the text, sorted by how badly the vanilla reference predicts its next token and cut into "
    "ten equal parts: decile 1 is the easiest tenth of the text, decile 10 the hardest."
)
NO_REFERENCE = "This file has no reference model, so no position has a difficulty and there are no deciles. Run with --reference to have them."
NO_ROUTER = "No checkpoint in this file has a router, so no token has a depth of its own."
BENEFIT = """
**Benefit of depth** is the loss when every token stops after one recursion, minus the loss when every token runs all of
them, under the same model. Above zero, depth helps.
"""
CAUTIONS = """
- Deciles of the loss are made after the next token is known. A model that is merely surer of itself gains where the
  guess was right and loses on every surprise, so benefit falls towards decile 10 whatever depth does. Entropy is known
  before the next token: read the chart on the right beside it.
- When a token stops early, so does everything it looks back at: its benefit includes theirs.
- The router's gate weighs what each recursion adds. A token sent deeper than its router wanted is added with a weight
  near zero; *held open* shows the same runs without that weight.
- The depth of one checkpoint is not the depth of another: their shared blocks have different numbers of layers.
"""
GATES = {"as trained": "benefit", "held open": "benefit_open"}
ALL = "all"


def choose_checkpoints(routed: list[str]) -> list[str]:
    chosen = st.selectbox("Checkpoint", [ALL, *routed], key="checkpoint", bind="query-params", width=320)
    return routed if chosen == ALL else [chosen]


def show_depth(study: Study, checkpoints: list[str]) -> None:
    frame = deciles(study, checkpoints, "loss")
    recursions = max(map(study.recursions, checkpoints))
    sentence = words.depth_by_decile(frame)
    st.markdown(sentence)
    st.altair_chart(charts.depth_by_decile(frame, study.routed, recursions), key="depth", alt=words.plain(sentence))
    show_table(frame, "mean_depth", 2)


def show_benefit(study: Study, checkpoints: list[str]) -> None:
    gate = st.segmented_control("Router's gate", list(GATES), default="as trained", required=True, key="gate", bind="query-params")
    value = GATES[gate]
    frames = {by: deciles(study, checkpoints, by) for by in ("loss", "entropy")}
    domain = charts.shared_domain(frames.values(), value)
    for column, (by, frame) in zip(st.columns(2), frames.items()):
        with column:
            sentence = words.benefit_by_decile(frame, value, by)
            st.markdown(sentence)
            st.altair_chart(charts.benefit_by_decile(frame, study.routed, value, by, domain), key=f"benefit_{by}", alt=words.plain(sentence))
    for tab, (by, frame) in zip(st.tabs([f"By {by}" for by in frames]), frames.items()):
        with tab:
            show_table(frame, value, 3)


def show_table(frame: pd.DataFrame, value: str, digits: int) -> None:
    st.caption(f"n = {frame.groupby('checkpoint')['n'].sum().iloc[0]:,} positions. {words.about_intervals(frame['sequences'])} Exploratory.")
    st.dataframe(tables.by_decile(frame, value, digits), hide_index=True, height="content")


with shell.page(TITLE, QUESTION) as study:
    if not study.routed or study.reference is None:
        st.info(NO_ROUTER if not study.routed else NO_REFERENCE, icon=":material/info:")
        st.stop()
    checkpoints = choose_checkpoints(study.routed)
    show_depth(study, checkpoints)
    st.header("Does depth pay there?", anchor=False)
    st.markdown(BENEFIT)
    show_benefit(study, checkpoints)
    with st.expander("How to read these charts"):
        st.markdown(CAUTIONS)
