"""Charts: functions from a frame to a figure. Checkpoints differ in colour and in shape.

Every chart takes `frame`, a frame of Study's for each checkpoint under a column checkpoint, and
`checkpoints`, all of the file, which fixes who has which look. What a reader clicks is the selection
`picked`. Marks of fewer than SCARCE positions are paler.

Every channel is an object (alt.Tooltip, alt.Y2 and so on): for a string or a dictionary Altair searches its whole schema,
some 20 ms each. Nor is each part checked when it is made: the whole figure is, when it is drawn.
"""

from collections.abc import Callable, Iterable
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from altair.utils.schemapi import disable_debug_mode

from pages.parts.colours import CATEGORICAL, diverging, ordinal
from pages.parts.passage.scales import Scale

disable_debug_mode()

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
ENDS = {"loss": ("easiest", "hardest"), "entropy": ("most certain", "least certain")}
HEIGHT = 300
SMALL = 250  # px high: one of several figures, with its title and axes
SCARCE = 50  # positions
_LEGEND = alt.Legend(title=None, orient="top", columns=4, symbolOpacity=1)
_TOP = alt.Legend(title="depth", orient="top", symbolOpacity=1, symbolStrokeWidth=0)
Figures = alt.Chart | alt.LayerChart | list[alt.Chart | alt.LayerChart]  # one, or one for each checkpoint

_CELLS = 11  # steps of colour of a heat map, odd: the middle one is zero


def depth_by_decile(frame: pd.DataFrame, checkpoints: list[str], recursions: int, by: str = "loss", apart: bool = False) -> Figures:
    """Mean depth in each decile of loss or entropy (`by`), on an axis from 1 to R."""
    if apart:
        return _apart(frame, lambda rows: depth_by_decile(rows, checkpoints, recursions, by))
    depth = alt.Scale(domain=[1, recursions], nice=False)
    axis = alt.Axis(values=list(range(1, recursions + 1)), format="d", labelOverlap=False)
    return _lines(frame, checkpoints, "mean_depth", _decile(by), title="mean depth", scale=depth, axis=axis)


def benefit_by_decile(frame: pd.DataFrame, checkpoints: list[str], value: str, by: str, domain: list[float], apart: bool = False) -> Figures:
    """Mean benefit in each decile of `by`, with a line at zero. `value`: its column, benefit or benefit_open."""
    if apart:
        return _apart(frame, lambda rows: benefit_by_decile(rows, checkpoints, value, by, domain))
    y = {"title": "benefit of depth, nats", "scale": alt.Scale(domain=domain)}
    zero = alt.Chart(frame).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y=alt.YDatum(0.0, **y))
    return alt.layer(zero, _lines(frame, checkpoints, value, _decile(by), **y)).properties(height=HEIGHT)


def loss_by_depth(frame: pd.DataFrame, checkpoints: list[str], apart: bool = False) -> Figures:
    """Mean vanilla loss at each depth."""
    if apart:
        return _apart(frame, lambda rows: loss_by_depth(rows, checkpoints))
    x = alt.X("depth:O", title="depth: recursions that the router gave", axis=alt.Axis(labelAngle=0))
    return _lines(frame, checkpoints, "vanilla_loss", x, title="mean vanilla loss, nats", scale=alt.Scale(zero=False))


def depth_shares(frame: pd.DataFrame, recursions: int, by: str) -> Figures:
    """The share of each depth in each decile as a stacked bar, a figure for each checkpoint. The column `of` counts the decile."""
    return _apart(frame, lambda rows: _stacked(rows, recursions, by))


def _stacked(frame: pd.DataFrame, recursions: int, by: str) -> alt.Chart:
    paints = [getattr(paint, theme()) for paint in ordinal(recursions)]
    depth = alt.Color("depth:O", scale=alt.Scale(domain=list(range(1, recursions + 1)), range=paints), legend=_TOP)
    tooltip = [*plain("checkpoint:N", "decile:O", "depth:O"), *_figures("share", "share"), alt.Tooltip("n:Q", format=",")]
    return (
        alt.Chart(frame)
        .mark_bar(stroke="#808080", strokeWidth=0.5)
        .encode(
            x=_decile(by),
            y=alt.Y("share:Q", title="share of the decile", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=depth,
            order=alt.Order("depth:O"),
            opacity=paler("of"),
            tooltip=tooltip,
        )
        .add_params(_picked("checkpoint", "decile", "depth"))
    )


def benefit_by_depth(frame: pd.DataFrame, value: str, by: str) -> alt.LayerChart:
    """Mean benefit at each depth in each decile as a heat map: orange below zero, blue above."""
    cells = _painted(frame.dropna(subset=[value]), value)
    y = alt.Y("row:N", title=None, sort=None, axis=alt.Axis(labelLimit=300))
    tooltip = [*plain("checkpoint:N", "decile:O", "depth:O"), *_figures(value, "benefit, nats"), alt.Tooltip("n:Q", format=",")]
    base = alt.Chart(cells).encode(x=_decile(by), y=y, tooltip=tooltip)
    fill = base.mark_rect(stroke="#808080", strokeWidth=0.3).encode(color=alt.Color("fill:N", scale=None), opacity=paler()).add_params(_picked("checkpoint", "decile", "depth"))
    text = base.mark_text(fontSize=11).encode(text=alt.Text(f"{value}:Q", format="+.2f"), color=alt.Color("ink:N", scale=None))
    return alt.layer(fill, text).properties(height=alt.Step(26))


def steps(scale: Scale, quantity: str) -> alt.Chart:
    """How many tokens of a passage there are at each step of the scale they are shown in."""
    frame = pd.DataFrame({"step": [step.label for step in scale.steps], "n": scale.counts(), "fill": [getattr(step.paint, theme()) for step in scale.steps]})
    y = alt.Y("step:N", title=quantity, sort=None, axis=alt.Axis(labelLimit=260))
    bars = alt.Chart(frame).mark_bar(stroke="#808080", strokeWidth=0.5)
    return bars.encode(x=alt.X("n:Q", title="tokens"), y=y, color=alt.Color("fill:N", scale=None), tooltip=[*plain("step:N"), alt.Tooltip("n:Q", format=",")]).properties(height=200)


def checks(frame: pd.DataFrame, checkpoints: list[str]) -> Figures:
    """Each check's figure with its interval, a row a checkpoint, and its threshold as a dashed line. `frame`: tables.checks."""
    return [_check(rows.dropna(subset=["value"]), checkpoints, figure) for figure, rows in frame.groupby("figure", sort=False)]


def _check(frame: pd.DataFrame, checkpoints: list[str], figure: str) -> alt.LayerChart:
    y = alt.Y("checkpoint:N", title=None, sort=checkpoints, axis=alt.Axis(labelOverlap=False, labelLimit=200))
    tooltip = [*plain("checkpoint:N"), *_figures("value", figure)[:1], *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("low", "high", "threshold")), *plain("verdict:N")]
    base = alt.Chart(frame).encode(y=y, color=_colour(frame, checkpoints).legend(None), tooltip=tooltip)
    title = f"{figure}; dashed: threshold {frame['threshold'].iloc[0]:g}{', moved' if frame['moved'].iloc[0] else ''}" if len(frame) else f"{figure}: nothing to judge"
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=None), x2=alt.X2("high:Q"))
    point = base.mark_point(filled=True, size=70, opacity=1).encode(x=alt.X("value:Q"), shape=_shape(frame, checkpoints).legend(None))
    limit = alt.Chart(frame).mark_rule(strokeDash=[4, 4], color="gray").encode(x=alt.X("threshold:Q"))
    return alt.layer(limit, interval, point).properties(height=90 + 26 * max(1, frame["checkpoint"].nunique()), title=alt.TitleParams(title, fontSize=13, fontWeight="normal"))


def shared_domain(frames: Iterable[pd.DataFrame], *values: str) -> list[float]:
    """From the lowest to the highest end of any interval, and zero."""
    ends = pd.concat([frame[[value, f"{value}_low", f"{value}_high"]].stack() for frame in frames for value in values])
    return [min(0.0, ends.min()), max(0.0, ends.max())] if len(ends) else [0.0, 1.0]


def plain(*shorthands: str) -> list[alt.Tooltip]:
    """Columns in a tooltip as they are."""
    return [alt.Tooltip(shorthand) for shorthand in shorthands]


def paler(counted: str = "n") -> alt.OpacityValue:
    """Marks of fewer than SCARCE positions, of which there are `counted`, are paler."""
    return alt.OpacityValue(1.0, condition={"test": f"datum.{counted} < {SCARCE}", "value": 0.25})


def scarce(counts: pd.Series) -> str:
    """What the paler marks of a chart are; nothing where there are none. `counts`: the positions of each mark."""
    return f" Paler: fewer than {SCARCE} positions." if (counts < SCARCE).any() else ""


def theme() -> str:
    """light or dark, as the reader's browser shows the app."""
    return st.context.theme.type or "light"


def _lines(frame: pd.DataFrame, checkpoints: list[str], value: str, x: alt.X, title: str, **y: Any) -> alt.LayerChart:
    """A line of points with 95% intervals for each checkpoint; `y` is of the axis."""
    tooltip = [*plain("checkpoint:N", x.shorthand), *_figures(value, title), alt.Tooltip("n:Q", format=",")]
    base = alt.Chart(frame).encode(x=x, color=_colour(frame, checkpoints), tooltip=tooltip)
    height = alt.Y(f"{value}:Q", title=title, **y)
    line = base.mark_line(opacity=0.7, strokeWidth=2).encode(y=height)
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y(f"{value}_low:Q", title=title, **y), y2=alt.Y2(f"{value}_high:Q"), opacity=paler())
    point = base.mark_point(filled=True, size=60).encode(y=height, shape=_shape(frame, checkpoints), opacity=paler())
    return alt.layer(line, interval, point.add_params(_picked("checkpoint", x.shorthand.split(":")[0], nearest=True))).properties(height=HEIGHT)


def _apart(frame: pd.DataFrame, draw: Callable[[pd.DataFrame], alt.Chart | alt.LayerChart]) -> Figures:
    """The same figure for each checkpoint by itself."""
    return [draw(rows).properties(height=SMALL, title=checkpoint) for checkpoint, rows in frame.groupby("checkpoint", sort=False)]


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
    return alt.Color("checkpoint:N", scale=_scale(frame, checkpoints, CATEGORICAL[theme()]), legend=_legend(frame))


def _shape(frame: pd.DataFrame, checkpoints: list[str]) -> alt.Shape:
    return alt.Shape("checkpoint:N", scale=_scale(frame, checkpoints, SHAPES), legend=_legend(frame))


def _legend(frame: pd.DataFrame) -> alt.Legend | None:
    """None where there is one checkpoint, which then stands in the title or in the choice above."""
    return _LEGEND if frame["checkpoint"].nunique() > 1 else None


def _scale(frame: pd.DataFrame, checkpoints: list[str], looks: list[str]) -> alt.Scale:
    """The looks of the checkpoints in the frame, each keeping the one it has among all checkpoints."""
    shown = [checkpoint for checkpoint in checkpoints if checkpoint in set(frame["checkpoint"])]
    return alt.Scale(domain=shown, range=[looks[checkpoints.index(checkpoint) % len(looks)] for checkpoint in shown])
