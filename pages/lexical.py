"""Lexical: how much of depth the token alone decides, and which tokens it says least of."""

import pandas as pd
import streamlit as st

from db.study import Study
from pages.parts import choices, exhibit, filters, lexical, shell, words
from pages.parts.answers import ask

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


def show_figures(study: Study, checkpoints: list[str], where: str | None) -> None:
    frames = {checkpoint: ask(study, "lexical", checkpoint, where) for checkpoint in checkpoints}
    st.markdown("\n".join(f"- {lexical.verdict(rows, checkpoint)}" for checkpoint, rows in frames.items()))
    with st.expander("How this is computed"):
        st.markdown(HOW)
    frame = pd.concat(frames, names=["checkpoint"]).reset_index(level="checkpoint").reset_index(drop=True)
    even = frame[frame["split"] == lexical.EVEN]
    shared = {
        "origin": lexical.standing({study.checkpoint(checkpoint)["kind"] for checkpoint in checkpoints}),
        "caption": f"{lexical.held_out(even)}. {words.about_intervals(even['sequences'])}",
        "where": where,
        "sql": study.statement("scored_positions", where, checkpoint=checkpoints[0], columns=["token_id", "depth"]),
    }
    r2 = frame[(frame["figure"] == "r2")].dropna(subset="value")
    chart = None if r2.empty else lexical.explained(r2, checkpoints)
    alternative = "R² of depth from the token: " + lexical.spoken(frame, "r2")
    exhibit.show(study, frame, chart, name="lexical", table=lexical.table(frame), alternative=alternative, **shared)
    st.header("How often is a token's commonest depth right?", anchor=False)
    guesses = lexical.guesses(frame)
    chart = None if guesses.empty else lexical.accuracy(guesses, checkpoints)
    alternative = "How often a token's commonest depth is right: " + lexical.spoken(frame, "modal_accuracy")
    exhibit.show(study, guesses, chart, name="accuracy", alternative=alternative, columns=ACCURACY_COLUMNS, **shared)


def show_tokens(study: Study, where: str | None) -> None:
    st.header("Which tokens does identity explain worst?", anchor=False)
    left, right, _ = st.columns([2, 1.3, 2])
    with left:
        checkpoint = choices.checkpoint(study)
    with right:
        minimum = choices.minimum(study)
    frame = lexical.with_links(ask(study, "lexical_tokens", checkpoint, minimum, where), checkpoint, st.query_params.to_dict())
    numbers = {
        "fitted": ("learnt on", "localized"),
        "n": ("n held out", "localized"),
        "expected_depth": ("depth learnt", "%.3f"),
        "mean_depth": ("mean depth held out", "%.3f"),
        "modal_accuracy": ("commonest depth right", "percent"),
        "squared_error": ("mean squared error", "%.3f"),
        "share_of_error": ("share of all error", "percent"),
    }
    exhibit.show(
        study,
        frame,
        name="unexplained",
        caption=f"n = {frame['n'].sum():,} held-out positions of {len(frame):,} token types under {checkpoint} with at least {minimum:,} occurrences, the worst explained first.",
        origin="exploratory",
        where=where,
        columns={"shown": "token"}
        | {name: st.column_config.NumberColumn(label, format=form) for name, (label, form) in numbers.items()}
        | {"occurrences": st.column_config.LinkColumn("in context", display_text="open")},
        sql=study.statement("token_sums", where, checkpoint=checkpoint),
    )


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed:
        st.info(choices.NO_ROUTER, icon=":material/info:")
        st.stop()
    show_figures(study, filters.checkpoints(study, study.routed), where)
    show_tokens(study, where)
