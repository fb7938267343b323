"""Answers of the study, asked once for each version of the file and kept for all sessions."""

from typing import Any

import pandas as pd
import streamlit as st

from db.lines import lines
from db.published import beside
from db.report import report
from db.study import Study


def ask(study: Study, question: str, *arguments: Any, **shared: Any) -> Any:
    """What the Study's method `question` says to the arguments. shared: further ones, that spare work and change no answer."""
    return _answer(study.signature, question, arguments, study, shared)


def of_each(study: Study, question: str, checkpoints: list[str], *arguments: Any) -> pd.DataFrame:
    """What the Study's method `question` says of several checkpoints, one under the other, with a column checkpoint in front."""
    frames = {checkpoint: ask(study, question, checkpoint, *arguments) for checkpoint in checkpoints}
    return pd.concat(frames, names=["checkpoint"]).reset_index(level="checkpoint").reset_index(drop=True)


def cautions(study: Study, checkpoints: list[str], where: str | None) -> list[str]:
    """Study.cautions, with the positions that pass counted once for the page."""
    return ask(study, "cautions", checkpoints, where, kept=ask(study, "kept", where))


def published(study: Study) -> pd.DataFrame:
    """The file's own figures beside the numbers published for them; see db/published.py."""
    return _published(study.signature, study)


@st.cache_data(max_entries=8, show_spinner=False)
def _published(signature: tuple, _study: Study) -> pd.DataFrame:
    found = report(_study, _study.observed, in_full=False)
    return beside(pd.concat([lines(figures) for figures in found.checkpoints], ignore_index=True), _study.checkpoints)


@st.cache_data(max_entries=200, show_spinner=False)
def _answer(signature: tuple, question: str, arguments: tuple, _study: Study, _shared: dict[str, Any]) -> Any:
    return getattr(_study, question)(*arguments, **_shared)
