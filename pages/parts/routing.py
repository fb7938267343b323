"""Charts, words and tables of the page routing."""

from collections.abc import Collection

import altair as alt
import numpy as np
import pandas as pd

from db.rules import origin
from db.swaps import REPLAYED
from pages.parts import words
from pages.parts.charts import ENDS, HEIGHT, SCARCE, SHAPES, paler, plain, shared_domain, theme
from pages.parts.colours import CATEGORICAL
from pages.parts.passage.content import policy_words

GATES = {"router": "gate as trained", "open": "gate held open"}
KEPT = {"expert": {True: "kept", False: "dropped"}, "token": {True: "chosen depth", False: "other depths"}}
AXES = {"depth": "depth under the router", **{name: f"decile of vanilla {name}: 1 {low}, 10 {high}" for name, (low, high) in ENDS.items()}}
HOW = """
*Added loss* is the mean loss under a policy less that under the router, in nats, over the same positions. The router's **gate** weighs what a
recursion adds to a token. Under a swap it stays the router's own, so a token that is sent deeper than its router wanted is added
with a weight near zero, and the swap looks harmless. *Held open*, the gate weighs every token alike; an open policy is compared with the open router.

*Gate effect* = (open policy − open router) − (policy − router). Above zero, the trained gate hides a part of what the swap costs; below zero, a part of the cost is
the gate's doing.
*Router's depths again*, held open, is the router's own choice of tokens with the gate opened: what the opening does by itself.

*Block share* is the share of executed recursions among R for every position: what was computed for that loss.
"""
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


def answer(frame: pd.DataFrame, tested: str | None) -> str:
    """What random routing costs, with the gate as trained and held open, and what that says of the gate. `frame`: labelled rows of Study.swaps."""
    rows = frame.set_index("policy")
    names = {tested: f"{tested} routing".capitalize(), f"{tested}_open": "With gates held open it"}
    said = [cost(rows.loc[policy], name) for policy, name in names.items() if policy in rows.index]
    return " ".join(said + ([gate_part(rows.loc[tested])] if tested in rows.index and f"{tested}_open" in rows.index else []))


def gate_part(row: pd.Series) -> str:
    """Whether a swap's cost is the gate's doing. `row`: of Study.swaps, the swap under the gate as trained."""
    if _side(row, "added_loss") != 1 or _side(row, "gate_effect") not in (-1, 0, 1):
        return ""
    match _side(row, "gate_effect"):
        case -1:
            share = -row["gate_effect"] / row["added_loss"]
            return f"So **{share:.0%}** of what it costs is the gate's doing." if share < 1 else "So all of what it costs is the gate's doing."
        case 1:
            return f"So it is **not the gate's doing**: the gate hides {_nats(row['gate_effect'])} more."
        case _:
            return "So it is **not the gate's doing**."


def standing(kind: str) -> str:
    """The origin of added losses of a kind of checkpoint."""
    return "pre-set for random routing under the gate as trained, exploratory for all else" if origin(kind, "random", None) == "pre-set" else "exploratory"


def spoken(frame: pd.DataFrame, value: str) -> str:
    """A figure of every policy in a sentence."""
    parts = [f"{row['swap']}, {row['held']}: {_nats(row[value])}" for _, row in frame.iterrows()]
    return f"{value.replace('_', ' ').capitalize()}. {'; '.join(parts)}."


def costs(frame: pd.DataFrame, against: str) -> alt.LayerChart:
    """Added loss of each policy with its interval: a row a policy, or `against` block share. `frame`: labelled."""
    look = _look("held", list(GATES.values()))
    if against == "policy":
        return _rows(frame, "added_loss", "added loss, nats", look)
    share = alt.X("block_share:Q", title="block share: executed recursions of all possible ones", axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]), scale=alt.Scale(domain=[0, 1.2]))
    chart = _points(alt.Chart(frame).encode(x=share), frame, "y", "added_loss", "added loss, nats", look)
    once = frame.drop_duplicates("swap")
    names = alt.Chart(once).mark_text(align="left", dx=8, fontSize=11, color=CATEGORICAL[theme()][4]).encode(x=share, y=alt.Y("added_loss:Q"), text=alt.Text("swap:N"))
    return alt.layer(chart, names).properties(height=int(HEIGHT * 1.3))


def effects(frame: pd.DataFrame) -> alt.LayerChart:
    """Gate effect of each policy with its interval. `frame`: labelled rows that have one."""
    return _rows(frame, "gate_effect", "gate effect, nats", {"color": alt.ColorValue(CATEGORICAL[theme()][0])})


def costs_by(frame: pd.DataFrame, by: str, swaps: list[str]) -> list[alt.LayerChart]:
    """Added loss by depth or decile, with intervals: a figure for each gate, on one scale. `swaps`, all of the checkpoint, fixes who has which look. `frame`: labelled."""
    domain = shared_domain([frame], "added_loss")
    gates = [gate for gate in GATES.values() if gate in set(frame["held"])]
    return [_line(frame[frame["held"] == gate], by, _look("swap", swaps, frame["swap"]), domain).properties(title=gate, height=HEIGHT) for gate in gates]


def spread(frame: pd.DataFrame, kind: str, quantity: str) -> alt.Chart:
    """How the router's probability, or its margin, spreads over kept and over dropped tokens. `frame`: values of one recursion."""
    look = _look("group", list(KEPT[kind].values()))
    tooltip = [*plain("group:N"), *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("start", "end")), alt.Tooltip("n:Q", format=","), alt.Tooltip("share:Q", format=".2%")]
    return (
        alt.Chart(frame.assign(group=frame["is_kept"].map(KEPT[kind])))
        .mark_bar(opacity=0.55, binSpacing=0)
        .encode(
            x=alt.X("start:Q", title=f"router's {quantity}", bin="binned"),
            x2=alt.X2("end:Q"),
            y=alt.Y("share:Q", title="share of its group", stack=None, axis=alt.Axis(format="%")),
            color=look["color"],
            tooltip=tooltip,
        )
        .properties(height=HEIGHT)
    )


def _rows(frame: pd.DataFrame, value: str, title: str, look: dict) -> alt.LayerChart:
    """A row a policy, a mark a gate."""
    swap = alt.Y("swap:N", title=None, sort=frame["swap"].drop_duplicates().tolist(), axis=alt.Axis(labelLimit=200))
    base = alt.Chart(frame).encode(y=swap)
    if "shape" in look:
        base = base.encode(yOffset=alt.YOffset("held:N", sort=list(GATES.values())))
    return _points(base, frame, "x", value, title, look).properties(height=alt.Step(STEP))


def _points(base: alt.Chart, frame: pd.DataFrame, along: str, value: str, title: str, look: dict) -> alt.LayerChart:
    """Points with intervals and a line at zero; `along` is the axis of the figure."""
    axis, end = (alt.X, alt.X2) if along == "x" else (alt.Y, alt.Y2)
    zero = alt.Chart(frame.head(1)).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(**{along: axis(datum=0.0, title=title)})
    interval = base.mark_rule(strokeWidth=2).encode(**{along: axis(f"{value}_low:Q", title=title), f"{along}2": end(f"{value}_high:Q"), "color": look["color"]})
    point = base.mark_point(filled=True, size=70, opacity=1).encode(**{along: axis(f"{value}:Q", title=title), "tooltip": _tooltip(value, title)}, **look)
    return alt.layer(zero, interval, point)


def _line(frame: pd.DataFrame, by: str, look: dict, domain: list[float]) -> alt.LayerChart:
    column = "depth" if by == "depth" else "decile"
    title, scale = "added loss, nats", alt.Scale(domain=domain)
    zero = alt.Chart(frame.head(1)).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y=alt.Y(datum=0.0, title=title, scale=scale))
    base = alt.Chart(frame).encode(x=alt.X(f"{column}:O", title=AXES[by], axis=alt.Axis(labelAngle=0)), color=look["color"])
    height = alt.Y("added_loss:Q", title=title, scale=scale)
    line = base.mark_line(opacity=0.7, strokeWidth=2).encode(y=height)
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y("added_loss_low:Q", title=title, scale=scale), y2=alt.Y2("added_loss_high:Q"))
    point = base.mark_point(filled=True, size=60, opacity=1).encode(y=height, shape=look["shape"], opacity=paler(), tooltip=[*plain(f"{column}:O"), *_tooltip("added_loss", title)])
    return alt.layer(zero, line, interval, point)


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
    counts = ", ".join(f"{int(row.ties):,} at recursion {row.recursion}" for row in known.itertuples())
    return f"Positions tied at the threshold, where the lower position wins: {counts}."


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The swaps as text: a row a policy and gate. `frame`: labelled."""
    shown = pd.DataFrame({"policy": frame["swap"], "gate": frame["held"], "compared with": frame["baseline"].map({"router": "router", "router_open": "router, held open"})})
    for name, label, digits in (("mean_loss", "mean loss, nats", 3), ("block_share", "block share", 3), ("added_loss", "added loss, nats", 4), ("gate_effect", "gate effect, nats", 4)):
        shown[label] = [words.interval(*figure, digits) for figure in zip(frame[name], frame[f"{name}_low"], frame[f"{name}_high"])]
    return shown.assign(n=frame["n"])


def table_by(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """The swaps by depth or decile as text: a row a depth or decile, a column a policy and gate. `frame`: labelled."""
    column = "depth" if by == "depth" else "decile"
    text = [words.interval(*figure, 4) for figure in zip(frame["added_loss"], frame["added_loss_low"], frame["added_loss_high"])]
    named = frame["swap"] + np.where(frame["held"] == GATES["open"], ", open", "")
    return frame.assign(text=text, named=named).pivot_table("text", [column, "n"], "named", "first", sort=False).reset_index().rename_axis(columns=None)


def means(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """What the router gives to kept and to dropped tokens as text, a row a recursion and group. `frame`: Router.means."""
    shown = pd.DataFrame({"recursion": frame["recursion"], "tokens": frame["is_kept"].map(KEPT[kind]), "n": frame["n"]})
    shown["mean"] = [words.interval(*figure, 4) for figure in zip(frame["mean"], frame["mean_low"], frame["mean_high"])]
    return shown.assign(ties=[words.count(ties) for ties in frame["ties"]])


def _look(field: str, names: list[str], shown: Collection[str] | None = None) -> dict:
    """Colour and shape of a field's values under one legend, for those `shown`; `names`, all of them, fixes who has which."""
    used = [name for name in names if shown is None or name in set(shown)]
    legend = alt.Legend(title=None, orient="top", columns=3, symbolOpacity=1, labelLimit=200)

    def scale(looks: list[str]) -> alt.Scale:
        return alt.Scale(domain=used, range=[looks[names.index(name) % len(looks)] for name in used])

    return {
        "color": alt.Color(f"{field}:N", scale=scale(CATEGORICAL[theme()]), legend=legend),
        "shape": alt.Shape(f"{field}:N", scale=scale(SHAPES), legend=legend),
    }


def _tooltip(value: str, title: str) -> list:
    ends = (("", ""), ("_low", ", low"), ("_high", ", high"))
    return [*plain("swap:N", "held:N"), *(alt.Tooltip(f"{value}{end}:Q", title=f"{title}{of}", format=".4f") for end, of in ends), alt.Tooltip("n:Q", format=",")]


def _side(row: pd.Series, name: str) -> int | None:
    """Which side of zero the interval lies on; 0 where it holds zero, None where there is none."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if pd.isna(low) else int(low > 0) - int(high < 0)


def _nats(value: float) -> str:
    return f"{value:+.4f} nats".replace("-", "−")


def _ends(row: pd.Series, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "" if pd.isna(low) else f" \\[{low:+.4f}, {high:+.4f}\\]".replace("-", "−")
