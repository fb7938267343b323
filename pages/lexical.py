"""Lexical: how much of depth the token alone decides, and which tokens it says least of."""

from typing import Any

import pandas as pd
import streamlit as st

from db.rules import THRESHOLDS
from db.study import Study
from pages.parts import choices, exhibit, filters, lexical, reading, shell, words
from pages.parts.answers import ask, of_each

TITLE = "Is depth decided by the token alone?"
QUESTION = (
    "If every occurrence of a token got the same **depth**, the router would be a lookup table, whatever the text around it. "
    "So: learn each token's depth on one half of the sequences, and predict it on the other."
)
HOW = r"""
Each token's mean depth $\hat d$ is learnt on even sequences and scored on odd ones; a token never seen there gets the mean of the half.
$R^2 = 1 - \sum (d - \hat d)^2 / \sum (d - \bar d)^2$ with $\bar d$ the held-out mean: 1 means that the token decides its depth, 0 that
it says nothing. The interval keeps what was learnt and resamples held-out sequences. From $R^2 \ge 0.5$ on, depth is called *mainly lexical*.

The *commonest depth* of a token is right for a share of held-out positions. Two baselines stand beside it: always saying
the depth that is commonest in the learning half, and the share of the largest depth group in the held-out half.

Neighbouring sequences share documents, so the first half of the file also predicts the second. *Random halves* are 20 other ways to split:
their value is the mean, and in place of an interval stand the smallest and the largest of them.
"""

ACCURACY_COLUMNS = {
    "checkpoint": "checkpoint",
    "guess": "what is said",
    **{name: st.column_config.NumberColumn(label, format="percent") for name, label in (("value", "right"), ("low", "from"), ("high", "to"))},
    "n": st.column_config.NumberColumn("n", format="localized"),
}
TOKEN_COLUMNS = {
    "shown": "token",
    "fitted": st.column_config.NumberColumn("learnt on", format="localized"),
    "n": st.column_config.NumberColumn("n held out", format="localized"),
    "expected_depth": st.column_config.NumberColumn("depth learnt", format="%.3f"),
    "mean_depth": st.column_config.NumberColumn("mean depth held out", format="%.3f"),
    "modal_accuracy": st.column_config.NumberColumn("commonest depth right", format="percent"),
    "squared_error": st.column_config.NumberColumn("mean squared error", format="%.3f"),
    "share_of_error": st.column_config.NumberColumn("share of all error", format="percent"),
    "occurrences": st.column_config.LinkColumn("in context", display_text="open"),
}


def show_explained(study: Study, where: str | None) -> None:
    """R² of each checkpoint, the other splits on demand."""
    others = st.toggle("Other ways to split the sequences, too", key="others", bind="query-params")
    frame, shared = ask_lexical(study, where, others)
    r2 = frame[frame["figure"] == "r2"].dropna(subset="value")
    chart = None if r2.empty else lexical.explained(r2, study.routed)
    alternative = "R² of depth from the token: " + lexical.spoken(frame, "r2")
    if chart is not None:
        shared["caption"] += f" {lexical.EVEN}: learnt on even sequences, scored on odd ones. Dashed: from R² = {THRESHOLDS['lexical_r2']:g} on, depth is called mainly lexical."
    exhibit.show(study, frame, chart, name="lexical", table=lexical.table(frame), alternative=alternative, **shared)


def show_accuracy(study: Study, where: str | None) -> None:
    """How often a token's commonest depth is right, beside two baselines."""
    frame, shared = ask_lexical(study, where, False)
    guesses = lexical.guesses(frame)
    chart = None if guesses.empty else lexical.accuracy(guesses, study.routed)
    alternative = "How often a token's commonest depth is right: " + lexical.spoken(frame, "modal_accuracy")
    exhibit.show(study, guesses, chart, name="accuracy", alternative=alternative, columns=ACCURACY_COLUMNS, **shared)


def ask_lexical(study: Study, where: str | None, others: bool) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The figures of the checkpoints chosen, after what they say in words; and what their exhibits share."""
    checkpoints = filters.checkpoints(study, study.routed)
    frame = of_each(study, "lexical", checkpoints, where, others)
    if where and not frame["n"].any():
        st.info(exhibit.FILTERED, icon=":material/info:")
        st.stop()
    st.markdown("\n".join(f"- {lexical.verdict(rows, checkpoint)}" for checkpoint, rows in frame.groupby("checkpoint", sort=False)))
    even = frame[frame["split"] == lexical.EVEN]
    return frame, {
        "origin": lexical.standing({study.checkpoint(checkpoint)["kind"] for checkpoint in checkpoints}),
        "caption": f"{lexical.held_out(even)}. {words.about_intervals(even['sequences'])}",
        "where": where,
        "sql": study.statement("shown_lexical", where, checkpoints=checkpoints),
    }


def show_tokens(study: Study, where: str | None) -> None:
    """The tokens whose depth their identity says least of."""
    left, right, _ = st.columns([2, 1.3, 2])
    with left:
        checkpoint = choices.checkpoint(study)
    with right:
        minimum = choices.minimum(study)
    frame = lexical.with_links(ask(study, "lexical_tokens", checkpoint, minimum, where), checkpoint, choices.carried())
    exhibit.show(
        study,
        frame,
        name="unexplained",
        caption=f"n = {frame['n'].sum():,} held-out positions of {len(frame):,} token types under {checkpoint} with at least {minimum:,} occurrences, the worst explained first.",
        origin="exploratory",
        where=where,
        columns=TOKEN_COLUMNS,
        sql=study.statement("shown_lexical_tokens", where, checkpoint=checkpoint, minimum=minimum),
    )


VIEWS = {"variance explained": show_explained, "commonest depth": show_accuracy, "tokens explained worst": show_tokens}


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed:
        st.info(choices.NO_ROUTER, icon=":material/info:")
        st.stop()
    view = st.segmented_control("Show", list(VIEWS), default="variance explained", required=True, key="lexical", bind="query-params")
    with st.spinner("Computing …", show_time=True):
        VIEWS[view](study, where)
    reading.show(study, filters.checkpoints(study, study.routed), where, HOW)
