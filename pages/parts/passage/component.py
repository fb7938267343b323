"""The component that shows a passage. Text from the file reaches it through `data` alone."""

from pathlib import Path
from typing import Any

import streamlit as st

_FOLDER = Path(__file__).parent
_ASSETS = {kind: (_FOLDER / f"text.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")}
_mount = st.components.v2.component("depthscope_passage", **_ASSETS)


def show(data: dict[str, Any]) -> None:
    """The passage described by `content`."""
    _mount(data=data, key="passage")
