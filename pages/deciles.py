"""Deciles: depth, and what depth buys, from the easiest tenth of the text to the hardest."""

import streamlit as st

from db.study import Study
from pages.parts import deciles, filters, shell

TITLE = "Do harder tokens go deeper?"
QUESTION = (
    "Every position of the text, sorted by how badly the vanilla reference predicts its next token and cut into "
    "ten equal parts: decile 1 is the easiest tenth of the text, decile 10 the hardest. Click in a chart to keep that part alone."
)
NO_REFERENCE = "This file has no reference model, so no position has a difficulty and there are no deciles. Run with --reference to have them."
NO_ROUTER = "No checkpoint in this file has a router, so no token has a depth of its own."
CAUTIONS = """
- Deciles of the loss are made after the next token is known. A model that is merely surer of itself gains where the
  guess was right and loses on every surprise, so benefit falls towards decile 10 whatever depth does. Entropy is known
  before the next token: read the chart on the right beside it.
- When a token stops early, so does everything it looks back at: its benefit includes theirs.
- The router's gate weighs what each recursion adds. A token sent deeper than its router wanted is added with a weight
  near zero; *held open* shows the same runs without that weight.
- The depth of one checkpoint is not the depth of another: their shared blocks have different numbers of layers.
"""
OF = ("the file", "the filter")
ALL = "all"


def choose_checkpoints(routed: list[str]) -> list[str]:
    chosen = st.selectbox("Checkpoint", [ALL, *routed], key="checkpoint", bind="query-params", width=320)
    return routed if chosen == ALL else [chosen]


def choose(study: Study, where: str | None) -> tuple[str, deciles.Asked]:
    """The view, and what it is asked."""
    view = st.segmented_control("Show", list(deciles.VIEWS), default="depth", required=True, key="view", bind="query-params")
    boxes = iter(st.columns([2, 1.3, 1.5, 1.7], vertical_alignment="bottom"))
    with next(boxes):
        checkpoints = choose_checkpoints(filters.checkpoints(study, study.routed))
    by, within, apart = "loss", False, False
    if view != "loss by depth":
        of = next(boxes).segmented_control("Deciles of", OF, default=OF[0], required=True, key="of", bind="query-params")
        within = of == OF[1] and where is not None
    if view not in ("loss by depth", "benefit"):
        by = next(boxes).segmented_control("Deciles by", ["loss", "entropy"], default="loss", required=True, key="by", bind="query-params")
    if len(checkpoints) > 1 and view in ("depth", "loss by depth", "benefit"):
        apart = next(boxes).segmented_control("Checkpoints", ["overlaid", "apart"], default="overlaid", required=True, key="layout", bind="query-params") == "apart"
    return view, deciles.Asked(study, checkpoints, where, by, within, apart)


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed or study.reference is None:
        st.info(NO_ROUTER if not study.routed else NO_REFERENCE, icon=":material/info:")
        st.stop()
    view, asked = choose(study, where)
    with st.spinner("Computing …", show_time=True):
        deciles.VIEWS[view](asked)
    with st.expander("How to read these charts"):
        st.markdown(CAUTIONS)
