"""Overview: the answer per checkpoint, what depth is, and what the file holds."""

import streamlit as st

from db.checks import Checks
from db.difficulty import Texts
from db.published import why_not
from db.rules import THRESHOLDS
from db.study import Study
from pages.parts import charts, exhibit, filters, routers, shell, tables, words
from pages.parts.answers import ask, cautions, published

TITLE = "Is depth spent on difficult tokens?"
QUESTION = (
    "A Mixture-of-Recursions model can send a token through its shared block of layers once or several times. "
    "How many times is the token's **depth**, and a router decides it. A token is **difficult** where the "
    "vanilla reference, a plain model without recursions, predicts the next one badly."
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

These thresholds are the study's. Move one to see how much hangs on it; what follows is then exploratory.
"""
NO_ROUTER = "No checkpoint in this file has a router, so no token has a depth of its own."


def check(study: Study, checkpoints: list[str], where: str | None) -> list[Checks]:
    """The checks of each checkpoint with positions, with progress while they are computed."""
    found, texts, bar = [], Texts(), st.progress(0.0, text="Checking …")
    for number, checkpoint in enumerate(checkpoints):
        bar.progress(number / len(checkpoints), text=f"Checking {checkpoint} …")
        found.append(ask(study, "checks", checkpoint, where, texts=texts))
    bar.empty()
    return [checks for checks in found if checks.scored]


def show_answers(study: Study, found: list[Checks], where: str | None) -> None:
    answers = st.container()
    with st.expander("How this is decided"):
        st.markdown(RULES)
        thresholds = choose_thresholds()
        warnings = cautions(study, [checks.checkpoint for checks in found], where)
        st.markdown("\n".join(f"- {words.literal(warning)}" for warning in warnings))
    with answers:
        st.markdown("\n".join(f"- {words.verdict(checks, thresholds)}" for checks in found))
        show_checks(study, found, thresholds, where)


def choose_thresholds() -> dict[str, float]:
    boxes = zip(THRESHOLDS.items(), st.columns(len(THRESHOLDS), vertical_alignment="bottom"))
    return {
        figure: box.number_input(words.MEASURES[figure], -1.0, 10.0, limit, 0.05, format="%.3f", key=figure, bind="query-params") for (figure, limit), box in boxes
    }


def show_checks(study: Study, found: list[Checks], thresholds: dict[str, float], where: str | None) -> None:
    frame = tables.checks(found, thresholds)
    scored = [checks.scored for checks in found]
    number = f"{min(scored):,}" if min(scored) == max(scored) else f"{min(scored):,} to {max(scored):,}"
    exhibit.show(
        study,
        frame,
        charts.checks(frame, study.routed),
        name="checks",
        caption=f"n = {number} positions. {words.about_intervals([checks.sequences for checks in found])}",
        origin="pre-set for expert-choice under thresholds unmoved, else exploratory",
        where=where,
        table=tables.checks_shown(frame),
        alternative="The four checks of each checkpoint with their thresholds, as in the table.",
    )


def show_published(study: Study, where: str | None) -> None:
    if reason := why_not(study, where):
        st.caption(f"No comparison with published numbers: {words.literal(reason)}.")
        return
    with st.expander("Beside published numbers", key="published", on_change="rerun", bind="query-params") as beside:
        if beside.open:
            with st.spinner("Computing every published figure …", show_time=True):
                frame = published(study)
            exhibit.show(
                study, frame, name="published_numbers", caption="The file's own figures beside published ones.", origin="exploratory", where=where, table=tables.published(frame)
            )


def show_file(study: Study) -> None:
    st.markdown(words.contents(study))
    losses = {checkpoint: ask(study, "mean_loss", checkpoint) for checkpoint in dict.fromkeys([*filter(None, [study.reference]), *study.observed])}
    st.dataframe(tables.checkpoints(study, losses), hide_index=True, height="content")
    with st.expander("Policies: what was run in place of the router"):
        st.dataframe(tables.policies(study), hide_index=True, height="content")
    with st.expander("When and how it was computed"):
        st.dataframe(tables.facts(study.meta), hide_index=True, height="content")


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    routed = filters.checkpoints(study, study.routed)
    found = check(study, routed, where)
    if found:
        show_answers(study, found, where)
    else:
        st.info(exhibit.FILTERED if routed else NO_ROUTER, icon=":material/info:")
    show_published(study, where)
    st.header("What depth is", anchor=False)
    st.markdown(DEPTH)
    routers.show()
    st.header("What this file holds", anchor=False)
    show_file(study)
