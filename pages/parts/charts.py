"""Charts: functions from a frame to a figure. Checkpoints differ in colour and in shape.

Every chart takes `frame`, a frame of Study's for each checkpoint under a column checkpoint, and
`checkpoints`, all of the file, which fixes who has which look. What a reader clicks is the selection
`picked`. Marks of fewer than SCARCE positions are paler.
"""

from collections.abc import Iterable
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from pages.parts.colours import CATEGORICAL, diverging, ordinal

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
ENDS = {"loss": ("easiest", "hardest"), "entropy": ("most certain", "least certain")}
HEIGHT = 300
SMALL = {"width": 330, "height": 190}  # px of one of several figures
SCARCE = 50  # positions
_LEGEND = alt.Legend(title=None, orient="top", columns=4, symbolOpacity=1)
_TOP = alt.Legend(orient="top")
_PALER = alt.condition(f"datum.n < {SCARCE}", alt.value(0.25), alt.value(1.0))
_CELLS = 11  # steps of colour of a heat map, odd: the middle one is zero


def depth_by_decile(frame: pd.DataFrame, checkpoints: list[str], recursions: int, by: str = "loss", apart: bool = False) -> alt.TopLevelMixin:
    """Mean depth in each decile of loss or entropy (`by`), on an axis from 1 to R."""
    depth = alt.Scale(domain=[1, recursions], nice=False)
    axis = alt.Axis(values=list(range(1, recursions + 1)), format="d", labelOverlap=False)
    return _side_by_side(_lines(frame, checkpoints, "mean_depth", _decile(by), title="mean depth", scale=depth, axis=axis), apart)


def benefit_by_decile(frame: pd.DataFrame, checkpoints: list[str], value: str, by: str, domain: list[float], apart: bool = False) -> alt.TopLevelMixin:
    """Mean benefit in each decile of `by`, with a line at zero. `value`: its column, benefit or benefit_open."""
    y = {"title": "benefit of depth, nats", "scale": alt.Scale(domain=domain)}
    zero = alt.Chart(frame).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y=alt.datum(0.0, **y))
    return _side_by_side(alt.layer(zero, _lines(frame, checkpoints, value, _decile(by), **y)), apart)


def loss_by_depth(frame: pd.DataFrame, checkpoints: list[str], apart: bool = False) -> alt.TopLevelMixin:
    """Mean vanilla loss at each depth."""
    x = alt.X("depth:O", title="depth: recursions that the router gave", axis=alt.Axis(labelAngle=0))
    return _side_by_side(_lines(frame, checkpoints, "vanilla_loss", x, title="mean vanilla loss, nats", scale=alt.Scale(zero=False)), apart)


def depth_shares(frame: pd.DataFrame, recursions: int, by: str) -> alt.TopLevelMixin:
    """The share of each depth in each decile as a stacked bar, a figure for each checkpoint."""
    paints = [getattr(paint, theme()) for paint in ordinal(recursions)]
    depth = alt.Color("depth:O", title="depth", scale=alt.Scale(domain=list(range(1, recursions + 1)), range=paints), legend=_TOP)
    tooltip = ["checkpoint:N", "decile:O", "depth:O", *_figures("share", "share"), alt.Tooltip("n:Q", format=",")]
    bars = (
        alt.Chart(frame)
        .mark_bar(stroke="#808080", strokeWidth=0.5)
        .encode(
            x=_decile(by),
            y=alt.Y("share:Q", title="share of the decile", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=depth,
            order="depth:O",
            opacity=_PALER,
            tooltip=tooltip,
        )
        .add_params(_picked("checkpoint", "decile", "depth"))
    )
    return _side_by_side(bars.properties(height=HEIGHT), frame["checkpoint"].nunique() > 1)


def benefit_by_depth(frame: pd.DataFrame, value: str, by: str) -> alt.LayerChart:
    """Mean benefit at each depth in each decile as a heat map: orange below zero, blue above."""
    cells = _painted(frame.dropna(subset=[value]), value)
    y = alt.Y("row:N", title=None, sort=None, axis=alt.Axis(labelLimit=300))
    tooltip = ["checkpoint:N", "decile:O", "depth:O", *_figures(value, "benefit, nats"), alt.Tooltip("n:Q", format=",")]
    base = alt.Chart(cells).encode(x=_decile(by), y=y, tooltip=tooltip)
    fill = base.mark_rect(stroke="#808080", strokeWidth=0.3).encode(color=alt.Color("fill:N", scale=None), opacity=_PALER).add_params(_picked("checkpoint", "decile", "depth"))
    text = base.mark_text(fontSize=11).encode(text=alt.Text(f"{value}:Q", format="+.2f"), color=alt.Color("ink:N", scale=None))
    return alt.layer(fill, text).properties(height=alt.Step(26))


def shared_domain(frames: Iterable[pd.DataFrame], *values: str) -> list[float]:
    """From the lowest to the highest end of any interval, and zero."""
    ends = pd.concat([frame[[value, f"{value}_low", f"{value}_high"]].stack() for frame in frames for value in values])
    return [min(0.0, ends.min()), max(0.0, ends.max())] if len(ends) else [0.0, 1.0]


def scarce(frame: pd.DataFrame) -> str:
    """What the paler marks of a chart are; nothing where there are none."""
    return f" Paler: fewer than {SCARCE} positions." if (frame["n"] < SCARCE).any() else ""


def theme() -> str:
    """light or dark, as the reader's browser shows the app."""
    return st.context.theme.type or "light"


def _lines(frame: pd.DataFrame, checkpoints: list[str], value: str, x: alt.X, title: str, **y: Any) -> alt.LayerChart:
    """A line of points with 95% intervals for each checkpoint; `y` is of the axis."""
    tooltip = ["checkpoint:N", x.shorthand, *_figures(value, title), alt.Tooltip("n:Q", format=",")]
    base = alt.Chart(frame).encode(x=x, color=_colour(frame, checkpoints), shape=_shape(frame, checkpoints), tooltip=tooltip)
    height = alt.Y(f"{value}:Q", title=title, **y)
    line = base.mark_line(opacity=0.7, strokeWidth=2).encode(y=height)
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y(f"{value}_low:Q", title=title, **y), y2=f"{value}_high:Q", opacity=_PALER)
    point = base.mark_point(filled=True, size=60).encode(y=height, opacity=_PALER)
    return alt.layer(line, interval, point.add_params(_picked("checkpoint", x.shorthand.split(":")[0], nearest=True))).properties(height=HEIGHT)


def _side_by_side(chart: alt.Chart | alt.LayerChart, apart: bool) -> alt.TopLevelMixin:
    """The same chart for each checkpoint by itself, where it is wanted."""
    return chart.properties(**SMALL).facet(alt.Facet("checkpoint:N", title=None, sort=None), columns=2) if apart else chart


def _picked(*fields: str, nearest: bool = False) -> alt.Parameter:
    return alt.selection_point(name="picked", fields=list(fields), nearest=nearest, toggle=False)


def _decile(by: str) -> alt.X:
    return alt.X("decile:O", title=f"decile of vanilla {by}: 1 {ENDS[by][0]}, 10 {ENDS[by][1]}", axis=alt.Axis(labelAngle=0))


def _figures(value: str, title: str) -> list[alt.Tooltip]:
    """A figure and the ends of its interval."""
    ends = (("", ""), ("_low", ", low"), ("_high", ", high"))
    return [alt.Tooltip(f"{value}{end}:Q", title=f"{title}{of}", format=".3f") for end, of in ends]


def _painted(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The frame with the row, fill and ink of each cell."""
    most = max(frame[value].abs().max(), 1e-9) if len(frame) else 1.0
    steps = np.rint((frame[value] / most + 1) / 2 * (_CELLS - 1)).astype(int)
    paints = diverging(_CELLS)
    return frame.assign(
        row=frame["checkpoint"] + ", depth " + frame["depth"].astype(str),
        fill=[getattr(paints[step], theme()) for step in steps],
        ink=[getattr(paints[step], f"ink_{theme()}") for step in steps],
    )


def _colour(frame: pd.DataFrame, checkpoints: list[str]) -> alt.Color:
    return alt.Color("checkpoint:N", scale=_scale(frame, checkpoints, CATEGORICAL[theme()]), legend=_LEGEND)


def _shape(frame: pd.DataFrame, checkpoints: list[str]) -> alt.Shape:
    return alt.Shape("checkpoint:N", scale=_scale(frame, checkpoints, SHAPES), legend=_LEGEND)


def _scale(frame: pd.DataFrame, checkpoints: list[str], looks: list[str]) -> alt.Scale:
    """The looks of the checkpoints in the frame, each keeping the one it has among all checkpoints."""
    shown = [checkpoint for checkpoint in checkpoints if checkpoint in set(frame["checkpoint"])]
    return alt.Scale(domain=shown, range=[looks[checkpoints.index(checkpoint) % len(looks)] for checkpoint in shown])
