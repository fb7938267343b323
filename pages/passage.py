"""Passage: a sequence as running text, each token coloured by depth or by another quantity."""

import streamlit as st

from db.study import Study
from pages.parts import shell
from pages.parts.passage import component
from pages.parts.passage.content import content
from pages.parts.passage.scales import QUANTITIES, scale, without

TITLE = "Which tokens go deep?"
QUESTION = (
    "Each token of a text, coloured by its **depth**: how many recursions the model's router gave it. "
    "Point at a token, or Tab into the text and move with the arrow keys, for its numbers."
)


def choose_checkpoint(study: Study) -> str:
    """The checkpoint: expert-3 where the file has it, else the first with a router."""
    ids = study.observed
    first = next(id for id in ["expert-3", *study.routed, *ids] if id in ids)
    return st.selectbox("Checkpoint", ids, index=ids.index(first), key="checkpoint", bind="query-params")


def choose_sequence(study: Study) -> int:
    last = study.counts["sequences"] - 1
    return st.number_input(f"Sequence, 0 to {last:,}", 0, last, 0, key="sequence", bind="query-params")


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


with shell.page(TITLE, QUESTION) as study:
    left, middle, right = st.columns([2, 1.4, 5])
    with left:
        checkpoint = choose_checkpoint(study)
    with middle:
        sequence = choose_sequence(study)
    recursions = study.recursions(checkpoint)
    with right:
        quantity, recursion = choose_quantity(recursions)

    frame = study.passage(checkpoint, sequence)
    shown = scale(frame, quantity, recursions, recursion)
    if shown is None:
        st.info(without(quantity, checkpoint, study.reference), icon=":material/info:")
    else:
        st.caption(f"{quantity.capitalize()}: {QUANTITIES[quantity]}.")
    component.show(
        content(
            frame,
            shown,
            build=f"{study.signature} {checkpoint} {sequence}",
            sequence=sequence,
            recursions=recursions,
            policies=study.policies_of(checkpoint),
        )
    )
