"""Charts, words and tables of the page lexical."""

from collections.abc import Collection
from urllib.parse import urlencode

import altair as alt
import pandas as pd

from db.rules import THRESHOLDS, origin
from pages.parts import words
from pages.parts.charts import plain, theme
from pages.parts.colours import CATEGORICAL
from pages.parts.tokens import shown

EVEN = "even → odd"
SPREAD = "random halves"
ACCURACIES = {
    "modal_accuracy": "the token's commonest depth",
    "commonest_accuracy": "always the commonest depth",
    "largest_depth_share": "share of the largest depth group",
}
FIGURES = {"r2": "R²"} | ACCURACIES
STEP = 26  # px of a row


def verdict(rows: pd.DataFrame, checkpoint: str) -> str:
    """What identity says of depth under a checkpoint, in a sentence. `rows`: Study.lexical of it."""
    figures = rows[rows["split"] == EVEN].set_index("figure")
    r2, modal, commonest = (figures.loc[figure] for figure in ("r2", "modal_accuracy", "commonest_accuracy"))
    name = words.literal(checkpoint)
    if pd.isna(r2["value"]):
        return f"**{name}: undecided.** {_why(r2)}"
    kind = "Mainly lexical" if r2["value"] >= THRESHOLDS["lexical_r2"] else "Not mainly lexical"
    return (
        f"**{name}: {kind.lower()}.** The token alone explains R² = {_figure(r2)} of the variance of depth; its commonest depth is right "
        f"for {_percent(modal)} of positions, against {_percent(commonest)} for always saying the commonest depth."
    )


def _why(r2: pd.Series) -> str:
    return "Depth does not vary on the held-out sequences, so there is nothing to explain." if r2["n"] else "No position is held out: none passes the filter, or it is a single sequence, which cannot be split."


def explained(frame: pd.DataFrame, checkpoints: list[str]) -> alt.LayerChart:
    """R² by checkpoint and split, with the 95% interval, for the random halves with their range. `frame`: the rows of Study.lexical with r2, under a column checkpoint."""
    rule = alt.Chart(pd.DataFrame({"value": [THRESHOLDS["lexical_r2"]]})).mark_rule(strokeDash=[4, 4], opacity=0.7).encode(x=alt.X("value:Q"))
    return alt.layer(rule, _dots(frame, checkpoints, "split", "R² of depth from the token"))


def guesses(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of Study.lexical that are an accuracy, even → odd, with the `guess` that is made."""
    rows = frame[(frame["split"] == EVEN) & frame["figure"].isin(ACCURACIES)].dropna(subset="value")
    return rows.assign(guess=rows["figure"].map(ACCURACIES))


def accuracy(frame: pd.DataFrame, checkpoints: list[str]) -> alt.LayerChart:
    """How often each guess is right, by checkpoint. `frame`: guesses."""
    return _dots(frame, checkpoints, "guess", "share of held-out positions")


def _dots(frame: pd.DataFrame, checkpoints: list[str], kind: str, title: str) -> alt.LayerChart:
    """A row a checkpoint, a dot with its interval for each `kind`, told apart by colour and shape."""
    kinds = frame[kind].drop_duplicates().tolist()
    x = alt.X("value:Q", title=title, scale=alt.Scale(domain=[min(0.0, frame[["value", "low"]].min().min()), 1.0]))
    legend = alt.Legend(title=None, orient="top", columns=1, labelLimit=300)
    look = {
        "y": alt.Y("checkpoint:N", title=None, sort=checkpoints),
        "yOffset": alt.YOffset(f"{kind}:N", sort=kinds),
        "color": alt.Color(f"{kind}:N", scale=alt.Scale(domain=kinds, range=CATEGORICAL[theme()][: len(kinds)]), legend=legend),
    }
    tooltip = [*plain("checkpoint:N", f"{kind}:N"), *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high")), alt.Tooltip("n:Q", format=",")]
    base = alt.Chart(frame)
    interval = base.mark_rule(strokeWidth=2).encode(x=x, x2=alt.X2("high:Q"), **look).transform_calculate(value="datum.low")
    shape = alt.Shape(f"{kind}:N", scale=alt.Scale(domain=kinds, range=["circle", "square", "diamond"][: len(kinds)]), legend=legend)
    point = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=shape, tooltip=tooltip, **look)
    return alt.layer(interval, point).properties(height=alt.Step(STEP))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures as text: a row a checkpoint and split, a column a figure."""
    text = frame.assign(text=[words.interval(*figure, 3) for figure in zip(frame["value"], frame["low"], frame["high"])])
    wide = text.pivot_table("text", ["checkpoint", "split", "n", "sequences"], "figure", "first", sort=False).reset_index()
    return wide[["checkpoint", "split", "n", "sequences", *FIGURES]].rename(columns=FIGURES)


def spoken(frame: pd.DataFrame, figure: str) -> str:
    """One figure of every checkpoint, fitted on even and scored on odd sequences, in a sentence."""
    rows = frame[(frame["split"] == EVEN) & (frame["figure"] == figure)]
    return ", ".join(f"{row.checkpoint} {words.interval(row.value, row.low, row.high, 3)}" for row in rows.itertuples()) + "."


def standing(kinds: Collection[str]) -> str:
    """Origin of the figures of checkpoints of these kinds."""
    origins = {kind: origin(kind, "lexical", None) for kind in kinds}
    if len(set(origins.values())) == 1:
        return next(iter(origins.values()))
    return "pre-set for expert-choice, exploratory for the others"


def held_out(frame: pd.DataFrame) -> str:
    """How many positions the figures are of."""
    few, many = frame["n"].min(), frame["n"].max()
    return f"n = {few:,} held-out positions" if few == many else f"n = {few:,} to {many:,} held-out positions, by checkpoint"


def with_links(frame: pd.DataFrame, checkpoint: str, query: dict) -> pd.DataFrame:
    """Study.lexical_tokens with the text `shown` and the address of each token's occurrences, which keeps `query`."""
    found = frame.copy()
    found.insert(1, "shown", [shown(*row) for row in zip(frame["token"], frame["token_id"])])
    return found.assign(occurrences=[f"tokens?{urlencode({**query, 'checkpoint': checkpoint, 'token_id': id}, doseq=True)}" for id in frame["token_id"]])


def _figure(row: pd.Series) -> str:
    return words.interval(row["value"], row["low"], row["high"], 3)


def _percent(row: pd.Series) -> str:
    ends = "" if pd.isna(row["low"]) else f" \\[{row['low']:.1%}, {row['high']:.1%}\\]"
    return f"{row['value']:.1%}{ends}"
