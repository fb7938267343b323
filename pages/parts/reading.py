"""How to read a page: what its figures are, and the warnings that follow from the file and the filter."""

import streamlit as st

from db.study import Study
from pages.parts import words
from pages.parts.answers import cautions


def show(study: Study, checkpoints: list[str], where: str | None, explanation: str = "") -> None:
    """An expander with the explanation, in Markdown, and a line for each warning."""
    warnings = cautions(study, checkpoints, where)
    with st.expander("How to read this"):
        st.markdown("\n".join([explanation, "", *(f"- {words.literal(warning)}" for warning in warnings)]))
