"""Passage: a sequence as running text, each token coloured by depth or by another quantity."""

import pandas as pd
import streamlit as st

from db.study import Study
from pages.parts import charts, exhibit, filters, shell
from pages.parts.answers import ask
from pages.parts.passage import component
from pages.parts.passage.content import content, places
from pages.parts.passage.scales import QUANTITIES, Scale, scale, without

TITLE = "Which tokens go deep?"
QUESTION = (
    "Each token of a text, coloured by its **depth**: how many recursions the model's router gave it. "
    "Point at a token, or Tab into the text and move with the arrow keys, for its numbers."
)
BESIDE = 4  # other checkpoints


def choose_checkpoint(study: Study) -> str:
    """The checkpoint: expert-3 where the file has it, else the first with a router."""
    ids = filters.checkpoints(study, study.observed)
    first = next(id for id in ["expert-3", *study.routed, *ids] if id in ids)
    return st.selectbox("Checkpoint", ids, index=ids.index(first), key="checkpoint", bind="query-params")


def choose_sequence(study: Study) -> int:
    last = study.counts["sequences"] - 1
    return st.number_input(f"Sequence, 0 to {last:,}", 0, last, 0, key="sequence", bind="query-params")


def choose_beside(study: Study, checkpoint: str) -> list[str]:
    """Other checkpoints, a row of marks each below the text; an open link may name the first one too."""
    others = st.multiselect("Other checkpoints below", study.observed, max_selections=BESIDE, key="beside", bind="query-params", placeholder=f"up to {BESIDE}")
    return [other for other in others if other != checkpoint]


def choose_quantity(recursions: int) -> tuple[str, int]:
    """The quantity shown and, for the router's probability, the recursion at which."""
    left, right = st.columns([3, 1])
    quantity = left.segmented_control(
        "Coloured by", list(QUANTITIES), default="depth", required=True, key="quantity", bind="query-params"
    )
    if quantity != "probability":
        return quantity, 1
    first = min(2, recursions)
    return quantity, right.number_input("At recursion", 1, recursions, first, key="recursion", bind="query-params")


def scale_of(study: Study, checkpoint: str, sequence: int, quantity: str, recursion: int) -> Scale | None:
    frame = ask(study, "passage", checkpoint, sequence)
    return scale(frame, quantity, study.recursions(checkpoint), recursion)


def passing(study: Study, checkpoint: str, sequence: int, where: str | None, tokens: int) -> list[int] | None:
    """Positions that the filter keeps, told; None without one."""
    if where is None:
        return None
    kept = ask(study, "passing", checkpoint, sequence, where)
    st.caption(f"{len(kept):,} of {tokens:,} tokens pass the filter; the others are faded.")
    return kept


def show_data(study: Study, checkpoint: str, sequence: int, frame: pd.DataFrame, shown: Scale | None, quantity: str) -> None:
    with st.expander("The passage as data"):
        exhibit.show(
            study,
            frame,
            charts.steps(shown, quantity) if shown else None,
            name="passage_data",
            caption=f"n = {len(frame):,} tokens of sequence {sequence} under {checkpoint}, whatever the filter.",
            origin="exploratory",
            where=None,
            columns=dict.fromkeys(name for name in frame if not name.endswith(("_open", "percentile"))),
            sql=study.passage_statement(checkpoint, sequence),
            alternative=f"How many tokens of the passage there are at each step of {quantity}, as in its legend.",
        )


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    left, middle, right = st.columns([2, 1.4, 5])
    with left:
        checkpoint = choose_checkpoint(study)
    with middle:
        sequence = choose_sequence(study)
    recursions = study.recursions(checkpoint)
    with right:
        beside = choose_beside(study, checkpoint)
    left, right = st.columns([3.4, 5])
    text = left.text_input("Find in this sequence", key="find", bind="query-params", max_chars=200, placeholder="a word or a few")
    with right:
        quantity, recursion = choose_quantity(recursions)

    frame = ask(study, "passage", checkpoint, sequence)
    shown = scale(frame, quantity, recursions, recursion)
    if shown is None:
        st.info(without(quantity, checkpoint, study.reference), icon=":material/info:")
    else:
        st.caption(f"{quantity.capitalize()}: {QUANTITIES[quantity]}.")
    found = places(frame, text)
    if text and not found:
        st.caption("Not in this sequence.")
    component.show(
        content(
            frame,
            shown,
            build=f"{study.signature} {checkpoint} {sequence}",
            checkpoint=checkpoint,
            sequence=sequence,
            recursions=recursions,
            policies=study.policies_of(checkpoint),
            beside={other: scale_of(study, other, sequence, quantity, recursion) for other in beside},
            found=found,
            passing=passing(study, checkpoint, sequence, where, len(frame)),
        )
    )
    show_data(study, checkpoint, sequence, frame, shown, quantity)
