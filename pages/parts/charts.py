"""Charts: functions from a frame to a figure. Checkpoints differ in colour and in shape."""

from collections.abc import Iterable
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from pages.parts.colours import CATEGORICAL

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
ENDS = {"loss": ("easiest", "hardest"), "entropy": ("most certain", "least certain")}
HEIGHT = 300
_LEGEND = alt.Legend(title=None, orient="top", columns=4, symbolOpacity=1)


def depth_by_decile(frame: pd.DataFrame, checkpoints: list[str], recursions: int) -> alt.LayerChart:
    """Mean depth in each decile of loss on an axis from 1 to R. `frame`: Study.deciles under a column checkpoint."""
    depth = alt.Scale(domain=[1, recursions], nice=False)
    axis = alt.Axis(values=list(range(1, recursions + 1)), format="d", labelOverlap=False)
    return _lines(frame, checkpoints, "mean_depth", "loss", title="mean depth", scale=depth, axis=axis)


def benefit_by_decile(frame: pd.DataFrame, checkpoints: list[str], value: str, by: str, domain: list[float]) -> alt.LayerChart:
    """Mean benefit in each decile of `by`, with a line at zero. `value`: its column, benefit or benefit_open."""
    y = {"title": "benefit of depth, nats", "scale": alt.Scale(domain=domain)}
    zero = alt.Chart(pd.DataFrame({value: [0.0]})).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y=alt.Y(f"{value}:Q", **y))
    return alt.layer(zero, _lines(frame, checkpoints, value, by, **y))


def shared_domain(frames: Iterable[pd.DataFrame], value: str) -> list[float]:
    """From the lowest to the highest end of any interval, and zero."""
    ends = pd.concat([frame[[value, f"{value}_low", f"{value}_high"]].stack() for frame in frames])
    return [min(0.0, ends.min()), max(0.0, ends.max())] if len(ends) else [0.0, 1.0]


def _lines(frame: pd.DataFrame, checkpoints: list[str], value: str, by: str, title: str, **y: Any) -> alt.LayerChart:
    """A line of points with 95% intervals for each checkpoint; `checkpoints` fixes who has which look, `y` is of the axis."""
    x = alt.X("decile:O", title=f"decile of vanilla {by}: 1 {ENDS[by][0]}, 10 {ENDS[by][1]}", axis=alt.Axis(labelAngle=0))
    figures = [alt.Tooltip(f"{value}{end}:Q", title=f"{title}{of}", format=".3f") for end, of in (("", ""), ("_low", ", low"), ("_high", ", high"))]
    tooltip = ["checkpoint:N", "decile:O", *figures, alt.Tooltip("n:Q", format=",")]
    base = alt.Chart(frame).encode(x=x, color=_colour(frame, checkpoints), shape=_shape(frame, checkpoints), tooltip=tooltip)
    height = alt.Y(f"{value}:Q", title=title, **y)
    line = base.mark_line(opacity=0.7, strokeWidth=2).encode(y=height)
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y(f"{value}_low:Q", title=title, **y), y2=f"{value}_high:Q")
    point = base.mark_point(filled=True, size=60, opacity=1).encode(y=height)
    return alt.layer(line, interval, point).properties(height=HEIGHT)


def theme() -> str:
    """light or dark, as the reader's browser shows the app."""
    return st.context.theme.type or "light"


def _colour(frame: pd.DataFrame, checkpoints: list[str]) -> alt.Color:
    return alt.Color("checkpoint:N", scale=_scale(frame, checkpoints, CATEGORICAL[theme()]), legend=_LEGEND)


def _shape(frame: pd.DataFrame, checkpoints: list[str]) -> alt.Shape:
    return alt.Shape("checkpoint:N", scale=_scale(frame, checkpoints, SHAPES), legend=_LEGEND)


def _scale(frame: pd.DataFrame, checkpoints: list[str], looks: list[str]) -> alt.Scale:
    """The looks of the checkpoints in the frame, each keeping the one it has among all checkpoints."""
    shown = [checkpoint for checkpoint in checkpoints if checkpoint in set(frame["checkpoint"])]
    return alt.Scale(domain=shown, range=[looks[checkpoints.index(checkpoint) % len(looks)] for checkpoint in shown])
