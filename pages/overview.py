"""Overview: the answer per checkpoint, what depth is, and what the file holds."""

import streamlit as st

from db.report import Report
from db.study import Study
from pages.parts import routers, shell, tables, words
from pages.parts.answers import report

TITLE = "Is depth spent on difficult tokens?"
QUESTION = (
    "A Mixture-of-Recursions model can send a token through its shared block of layers once or several times. "
    "How many times is the token's **depth**, and a router decides it. A token is **difficult** where a plain "
    "model of the same size, the vanilla reference, predicts the next one badly."
)
DEPTH = (
    "Two kinds of router, drawn on nine tokens and three recursions. A tick is a token that a recursion processes; "
    "what stands in one frame is compared with each other. The choices are made up to show the rule."
)
RULES = """
Depth **tracks difficulty** if its rank correlation (Spearman's ρ) with the vanilla loss, taken within each sequence and
averaged, is at least 0.2, and at least 0.1 when what the token itself and its position say is taken out of both. Depth is
**mainly lexical** if the token alone, learnt on even sequences, explains at least half of its variance on odd ones (R²).
**Routing matters** if choosing tokens at random (token-choice: shuffling the depths within each sequence) gives a worse loss,
with an interval above zero.
"""
NO_ROUTER = "No checkpoint in this file has a router, so no token has a depth of its own."


def show_answers(found: Report) -> None:
    if not found.checkpoints:
        st.info(NO_ROUTER, icon=":material/info:")
        return
    st.markdown("\n".join(f"- {words.verdict(figures)}" for figures in found.checkpoints))
    counted = found.checkpoints[0]
    st.caption(f"n = {counted.scored:,} positions. {words.about_intervals([counted.sequences])}")
    with st.expander("How this is decided"):
        st.markdown(RULES)
        st.dataframe(tables.rules(found.checkpoints), hide_index=True, height="content")
        st.markdown("\n".join(f"- {words.literal(caution)}" for caution in found.study.cautions()))


def show_file(study: Study, found: Report) -> None:
    st.markdown(words.contents(study))
    st.dataframe(tables.checkpoints(study, found), hide_index=True, height="content")
    with st.expander("Policies: what was run in place of the router"):
        st.dataframe(tables.policies(study), hide_index=True, height="content")
    with st.expander("When and how it was computed"):
        st.dataframe(tables.facts(study.meta), hide_index=True, height="content")


with shell.page(TITLE, QUESTION) as study:
    with st.spinner("Computing the figures of every checkpoint …"):
        found = report(study)
    show_answers(found)
    st.header("What depth is", anchor=False)
    st.markdown(DEPTH)
    routers.show()
    st.header("What this file holds", anchor=False)
    show_file(study, found)
