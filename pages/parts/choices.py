"""Choices that several pages offer, each kept in the URL from page to page."""

import streamlit as st

from db.study import Study
from pages.parts import filters

FIRST = "expert-3"
NO_ROUTER = "No checkpoint in this file has a router, so no token has a depth of its own."


def checkpoint(study: Study) -> str:
    """One checkpoint with a router, of those that the filter asks for; expert-3 first where it is among them."""
    among = filters.checkpoints(study, study.routed)
    first = among.index(FIRST) if FIRST in among else 0
    return st.selectbox("Checkpoint", among, index=first, key="checkpoint", bind="query-params")


def minimum(study: Study) -> int:
    """The least occurrences of a token type in a list."""
    return st.number_input("Occurrences, at least", 1, None, study.default_minimum(), key="minimum", bind="query-params")


def carried() -> dict[str, list[str]]:
    """What a link to another page should carry in its query: the file, the filter, and the least occurrences."""
    kept = ("file", "minimum", *filters.EMPTY)
    return {name: st.query_params.get_all(name) for name in kept if name in st.query_params}
