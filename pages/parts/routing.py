"""Charts, words and tables of the page routing."""

import altair as alt
import numpy as np
import pandas as pd

from db.swaps import REPLAYED
from pages.parts import words
from pages.parts.charts import ENDS, HEIGHT, theme
from pages.parts.colours import CATEGORICAL
from pages.parts.passage.content import policy_words

GATES = {"router": "gate as trained", "open": "gate held open"}
KEPT = {"expert": {True: "kept", False: "dropped"}, "token": {True: "chosen depth", False: "other depths"}}
AXES = {"depth": "depth under the router", **{name: f"decile of vanilla {name}: 1 {low}, 10 {high}" for name, (low, high) in ENDS.items()}}
STEP = 22  # px of a dot


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of Study.swaps or swaps_by with the words for its policies in `swap`, for their gates in `held`."""
    own = frame["policy"].str.removesuffix("_open")
    return frame.assign(swap=own.map(policy_words), held=np.where(frame["policy"].str.endswith("_open"), GATES["open"], GATES["router"]))


def cost(row: pd.Series, what: str) -> str:
    """What a swap costs, in words that follow from its interval."""
    figure = f"{_nats(row['added_loss'])}{_ends(row, 'added_loss')}"
    match _side(row, "added_loss"):
        case 1:
            return f"{what} **hurts**: {figure}."
        case -1:
            return f"{what} **helps**: {figure}."
        case 0:
            return f"{what} makes **no clear difference**: {figure}, an interval that holds zero."
        case _:
            return f"{what} adds {figure}, with too few sequences for an interval."


def gate_effect(row: pd.Series) -> str:
    """What the gate does to a swap's cost, in words that follow from the interval. `row`: of Study.swaps."""
    figure = f"gate effect {_nats(row['gate_effect'])}{_ends(row, 'gate_effect')}"
    if row["policy"] == REPLAYED:
        means = {1: "costs loss", -1: "gains loss back", 0: "makes no clear difference"}
        return f"Opening the gate on the very tokens that the router chose {means.get(_side(row, 'gate_effect'), 'has an effect without an interval')}: {figure}."
    name = words.literal(row["swap"]).capitalize()
    match _side(row, "gate_effect"):
        case 1:
            return f"{name}: the trained gate **softens** it. With gates held open it adds more loss: {figure}."
        case -1:
            return f"{name}: the trained gate **worsens** it. With gates held open it adds less loss: {figure}."
        case 0:
            return f"{name}: **no clear effect** of the gate. Held open, it adds neither clearly more loss nor clearly less: {figure}."
        case _:
            return f"{name}: {figure}, with too few sequences for an interval."


def costs(frame: pd.DataFrame, value: str, against: str) -> alt.LayerChart:
    """`value` (added_loss or gate_effect) of each policy with its interval: in rows, or `against` block_share. `frame`: labelled."""
    title = {"added_loss": "added loss, nats", "gate_effect": "gate effect, nats"}[value]
    swaps = frame["swap"].drop_duplicates().tolist()
    if against == "policy":
        place = {"y": alt.Y("swap:N", title=None, sort=swaps, axis=alt.Axis(labelLimit=200)), "yOffset": alt.YOffset("held:N", sort=list(GATES.values()))}
        figure, end, size = alt.X, "x", {"height": alt.Step(STEP)}
    else:
        place = {"x": alt.X("block_share:Q", title="block share: executed recursions of all possible ones", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))}
        figure, end, size = alt.Y, "y", {"height": HEIGHT}
    held = _look("held", list(GATES.values()))
    zero = alt.Chart(pd.DataFrame({value: [0.0]})).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(**{end: figure(f"{value}:Q", title=title)})
    base = alt.Chart(frame).encode(color=held["color"], **place)
    interval = base.mark_rule(strokeWidth=2).encode(**{end: figure(f"{value}_low:Q", title=title), f"{end}2": f"{value}_high:Q"})
    point = base.mark_point(filled=True, size=70, opacity=1).encode(**{end: figure(f"{value}:Q", title=title)}, shape=held["shape"], tooltip=_tooltip(value, title))
    layers = [zero, interval, point]
    if against != "policy":
        layers.append(base.mark_text(align="left", dx=8, fontSize=11).encode(y=figure(f"{value}:Q", title=title), text="swap:N"))
    return alt.layer(*layers).properties(**size)


def costs_by(frame: pd.DataFrame, by: str, swaps: list[str], domain: list[float]) -> alt.LayerChart:
    """Added loss of a few policies by depth or decile, with intervals; `swaps` fixes who has which look. `frame`: labelled rows of one gate."""
    look = _look("swap", swaps)
    column = "depth" if by == "depth" else "decile"
    y = {"title": "added loss, nats", "scale": alt.Scale(domain=domain)}
    zero = alt.Chart(pd.DataFrame({"added_loss": [0.0]})).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y=alt.Y("added_loss:Q", **y))
    base = alt.Chart(frame).encode(x=alt.X(f"{column}:O", title=AXES[by], axis=alt.Axis(labelAngle=0)), color=look["color"])
    line = base.mark_line(opacity=0.7, strokeWidth=2).encode(y=alt.Y("added_loss:Q", **y))
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y("added_loss_low:Q", **y), y2="added_loss_high:Q")
    tooltip = [alt.Tooltip(f"{column}:O"), *_tooltip("added_loss", "added loss, nats")]
    point = base.mark_point(filled=True, size=60, opacity=1).encode(y=alt.Y("added_loss:Q", **y), shape=look["shape"], tooltip=tooltip)
    return alt.layer(zero, line, interval, point).properties(height=HEIGHT)


def probabilities(frame: pd.DataFrame, kind: str, quantity: str) -> alt.Chart:
    """How the router's probability, or its margin, spreads over kept and over dropped tokens. `frame`: values of one recursion."""
    names = list(KEPT[kind].values())
    rows = frame.assign(group=frame["is_kept"].map(KEPT[kind]))
    look = _look("group", names)
    return (
        alt.Chart(rows)
        .mark_bar(opacity=0.55, binSpacing=0)
        .encode(
            x=alt.X("start:Q", title=f"router's {quantity}", bin="binned"),
            x2="end:Q",
            y=alt.Y("share:Q", title="share of its group", stack=None, axis=alt.Axis(format="%")),
            color=look["color"],
            tooltip=["group:N", alt.Tooltip("start:Q", format=".3f"), alt.Tooltip("end:Q", format=".3f"), alt.Tooltip("n:Q", format=","), alt.Tooltip("share:Q", format=".2%")],
        )
        .properties(height=int(HEIGHT * 0.8))
    )


def separation(means: pd.DataFrame, kind: str, quantity: str) -> str:
    """What the router gives to kept and to dropped tokens, in a sentence a recursion. `means`: Router.means."""
    parts = []
    for recursion, rows in means.groupby("recursion"):
        told = [f"{KEPT[kind][bool(row.is_kept)]} {words.interval(row.mean, row.mean_low, row.mean_high, 3)}" for row in rows.iloc[::-1].itertuples()]
        parts.append(f"{'recursion' if kind == 'expert' else 'depth'} {recursion}: {', '.join(told)}")
    return f"Mean {quantity}. " + "; ".join(parts).capitalize() + "."


def tied(means: pd.DataFrame) -> str:
    """How many positions were tied at a threshold, in a sentence; nothing where the file does not say."""
    known = means.dropna(subset="ties").drop_duplicates("recursion")
    if known.empty:
        return ""
    counts = ", ".join(f"recursion {row.recursion} {int(row.ties):,}" for row in known.itertuples())
    return f"Positions tied at the threshold, where the lower position wins: {counts}."


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The swaps as text: a row a policy and gate. `frame`: labelled."""
    shown = pd.DataFrame({"policy": frame["swap"], "gate": frame["held"], "compared with": frame["baseline"].map({"router": "router", "router_open": "router, held open"})})
    for name, label, digits in (("mean_loss", "mean loss, nats", 3), ("block_share", "block share", 3), ("added_loss", "added loss, nats", 4), ("gate_effect", "gate effect, nats", 4)):
        shown[label] = [words.interval(*figure, digits) for figure in zip(frame[name], frame[f"{name}_low"], frame[f"{name}_high"])]
    return shown.assign(n=frame["n"])


def table_by(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """The swaps by depth or decile as text: a row a depth or decile, a column a policy. `frame`: labelled rows of one gate."""
    column = "depth" if by == "depth" else "decile"
    text = frame.assign(text=[words.interval(*figure, 4) for figure in zip(frame["added_loss"], frame["added_loss_low"], frame["added_loss_high"])])
    return text.pivot_table("text", [column, "n"], "swap", "first", sort=False).reset_index().rename_axis(columns=None)


def means(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """What the router gives to kept and to dropped tokens as text, a row a recursion and group. `frame`: Router.means."""
    shown = pd.DataFrame({"recursion": frame["recursion"], "tokens": frame["is_kept"].map(KEPT[kind]), "n": frame["n"]})
    shown["mean"] = [words.interval(*figure, 4) for figure in zip(frame["mean"], frame["mean_low"], frame["mean_high"])]
    return shown.assign(ties=[words.count(ties) for ties in frame["ties"]])


def _look(field: str, domain: list[str]) -> dict:
    """Colour and shape of a field's values under one legend."""
    legend = alt.Legend(title=None, orient="top", columns=3, symbolOpacity=1, labelLimit=200)
    palette, shapes = CATEGORICAL[theme()], ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
    colours = [palette[place % len(palette)] for place in range(len(domain))]
    return {
        "color": alt.Color(f"{field}:N", scale=alt.Scale(domain=domain, range=colours), legend=legend),
        "shape": alt.Shape(f"{field}:N", scale=alt.Scale(domain=domain, range=[shapes[place % len(shapes)] for place in range(len(domain))]), legend=legend),
    }


def _tooltip(value: str, title: str) -> list:
    ends = (("", ""), ("_low", ", low"), ("_high", ", high"))
    return ["swap:N", "held:N", *(alt.Tooltip(f"{value}{end}:Q", title=f"{title}{of}", format=".4f") for end, of in ends), alt.Tooltip("n:Q", format=",")]


def _side(row: pd.Series, name: str) -> int | None:
    """Which side of zero the interval lies on; 0 where it holds zero, None where there is none."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if pd.isna(low) else int(low > 0) - int(high < 0)


def _nats(value: float) -> str:
    return f"{value:+.4f} nats".replace("-", "−")


def _ends(row: pd.Series, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "" if pd.isna(low) else f" \\[{low:+.4f}, {high:+.4f}\\]".replace("-", "−")
