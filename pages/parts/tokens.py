"""Charts, words and lines of text of the page tokens."""

from html import escape
from pathlib import Path
from urllib.parse import urlencode

import altair as alt
import pandas as pd

from pages.parts import words
from pages.parts.charts import HEIGHT, SCARCE, paler, theme
from pages.parts.colours import CATEGORICAL, ordinal

MARKS = str.maketrans({"\r": "␍", "\n": "↵", "\t": "⇥"})
STYLE = (Path(__file__).parent / "tokens.css").read_text(encoding="utf-8")
ORDERS = {
    "deepest": ("mean_depth", False),
    "shallowest": ("mean_depth", True),
    "most common": ("n", False),
    "hardest": ("mean_vanilla_loss", False),
    "helped most": ("mean_benefit", False),
}
MEASURES = {"depth": "share", "loss": "vanilla_loss", "benefit": "benefit"}
AXES = {"share": "share of occurrences", "vanilla_loss": "mean vanilla loss, nats", "benefit": "mean benefit of depth, nats"}


def shown(token: str | None, token_id: int) -> str:
    """A token's text with the spaces before it and its line ends made visible; its id where it has none."""
    if pd.isna(token):
        return f"id {token_id}"
    bare = token.lstrip(" ")
    return "␣" * (len(token) - len(bare)) + bare.translate(MARKS)


def ordered(frame: pd.DataFrame, order: str, search: str) -> pd.DataFrame:
    """The rows of Study.tokens whose text holds `search`, in one of ORDERS, ties by id, with the text `shown`."""
    column, ascending = ORDERS[order]
    found = frame[_holds(frame, search)].sort_values([column, "token_id"], ascending=[ascending, True], ignore_index=True)
    found.insert(1, "shown", [shown(*row) for row in zip(found["token"], found["token_id"])])
    return found


def _holds(frame: pd.DataFrame, search: str) -> pd.Series:
    text = frame["token"].where(frame["token"].notna(), frame["token_id"].astype(str)).astype(str)
    return text.str.contains(search, case=False, regex=False)


def extremes(frame: pd.DataFrame, minimum: int, many: int = 6) -> str:
    """The deepest and the shallowest tokens in a sentence. `frame`: Study.tokens."""
    named = [f"“{words.literal(shown(*row))}”" for row in zip(frame["token"], frame["token_id"])]
    kinds = "token type occurs" if len(frame) == 1 else "token types occur"
    sentence = f"**{len(frame):,} {kinds}** at least {minimum:,} times."
    if len(frame) < 2 * many:
        return sentence
    first, last = frame["mean_depth"].iloc[[0, -1]]
    return f"{sentence} Deepest, from mean depth {first:.2f}: {', '.join(named[:many])}. Shallowest, from {last:.2f}: {', '.join(reversed(named[-many:]))}."


def scatter(frame: pd.DataFrame, recursions: int) -> alt.Chart:
    """A point a token type: mean depth (1 to R) against mean vanilla loss; without a reference, against occurrences."""
    difficult = frame["mean_vanilla_loss"].notna().any()
    x = alt.X("mean_vanilla_loss:Q", title="mean vanilla loss, nats", scale=alt.Scale(zero=False)) if difficult else alt.X("n:Q", title="occurrences", scale=alt.Scale(type="log"))
    picked = alt.selection_point(fields=["token_id"], name="picked")
    colour = CATEGORICAL[theme()][0]
    tooltip = [
        alt.Tooltip("shown:N", title="token"),
        alt.Tooltip("n:Q", title="n", format=","),
        alt.Tooltip("mean_depth:Q", title="mean depth", format=".3f"),
        alt.Tooltip("sd_depth:Q", title="spread of depth", format=".3f"),
        alt.Tooltip("mean_vanilla_loss:Q", title="mean vanilla loss", format=".3f"),
    ]
    return (
        alt.Chart(frame[["token_id", "shown", "n", "mean_depth", "sd_depth", "mean_vanilla_loss"]])
        .mark_point(filled=True, color=colour, cursor="pointer")
        .encode(
            x=x,
            y=alt.Y("mean_depth:Q", title="mean depth", scale=alt.Scale(domain=[1, recursions])),
            size=alt.Size("n:Q", title="n", scale=alt.Scale(type="sqrt", range=[20, 400]), legend=alt.Legend(orient="top", format=",d", tickCount=3)),
            opacity=alt.OpacityValue(0.2, condition={"param": picked.name, "empty": True, "value": 0.65}),
            tooltip=tooltip,
        )
        .add_params(picked)
        .properties(height=int(HEIGHT * 1.3))
    )


def by_depth(frame: pd.DataFrame, value: str) -> alt.LayerChart:
    """One of AXES at each depth with its 95% interval; bars of few occurrences are paler. `frame`: Study.depths of one token."""
    paints = [getattr(paint, theme()) for paint in ordinal(len(frame))]
    base = alt.Chart(frame).encode(x=alt.X("depth:O", title="depth", axis=alt.Axis(labelAngle=0)))
    title = AXES[value]
    tooltip = [alt.Tooltip("depth:O"), alt.Tooltip("n:Q", format=","), *(alt.Tooltip(f"{value}{end}:Q", title=f"{title}{of}", format=".3f") for end, of in (("", ""), ("_low", ", low"), ("_high", ", high")))]
    bar = base.mark_bar(width={"band": 0.6}, stroke="gray", strokeWidth=0.5).encode(
        y=alt.Y(f"{value}:Q", title=title), color=alt.Color("depth:O", scale=alt.Scale(range=paints), legend=None), opacity=paler(), tooltip=tooltip
    )
    interval = base.mark_rule(strokeWidth=2, color=CATEGORICAL[theme()][4]).encode(y=alt.Y(f"{value}_low:Q", title=title), y2=alt.Y2(f"{value}_high:Q"))
    return alt.layer(bar, interval).properties(height=220)


def card(frame: pd.DataFrame, name: str) -> str:
    """How a token's occurrences spread over depths, in a sentence. `frame`: Study.depths of the token."""
    n = frame["n"].sum()
    if frame["n"].max() == n:
        return f"{name} always goes to depth {frame.loc[frame['n'].idxmax(), 'depth']}: {n:,} occurrences."
    parts = [f"{row.share:.0%} to depth {row.depth}" for row in frame.itertuples()]
    return f"Of {n:,} occurrences of {name}, {parts[0].replace(' to ', ' go to ')}, {', '.join(parts[1:])}."


def card_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The same frame as text: a row a depth, its figures with their intervals."""
    table = frame[["depth", "n"]].copy()
    for name, label in AXES.items():
        table[label] = [words.interval(*figure, 3) for figure in zip(frame[name], frame[f"{name}_low"], frame[f"{name}_high"])]
    return table


def with_links(frame: pd.DataFrame, checkpoint: str, query: dict) -> pd.DataFrame:
    """Study.occurrences with the address of each one's passage, which keeps `query`."""
    places = frame[["sequence", "position"]].to_dict("records")
    return frame.assign(passage=[f"passage?{urlencode({**query, 'checkpoint': checkpoint, **place}, doseq=True)}" for place in places])


def lines(frame: pd.DataFrame) -> str:
    """The occurrences as HTML: a list for each depth, a line and a link for each. `frame`: with_links."""
    return f"<style>{STYLE}</style><div class='occurrences'>{''.join(_group(depth, rows) for depth, rows in frame.groupby('depth', dropna=False))}</div>"


def _group(depth: int, rows: pd.DataFrame) -> str:
    items = "".join(_line(row) for row in rows.itertuples())
    loss = f", mean vanilla loss of these {rows['vanilla_loss'].mean():.2f} nats" if rows["vanilla_loss"].notna().any() else ""
    return f"<section><h4>Depth {depth}</h4><p>{len(rows):,} of {rows['at_depth'].iloc[0]:,}{loss}</p><ol>{items}</ol></section>"


def _line(row) -> str:
    loss = f"{row.vanilla_loss:.2f}" if pd.notna(row.vanilla_loss) else "–"
    before, token, after = (escape(text.translate(MARKS)) for text in (row.before, row.token, row.after))
    about = f"sequence {row.sequence}, position {row.position}, vanilla loss of the next token {loss} nats"
    return (
        f"<li><a href='{escape(row.passage, quote=True)}' target='_self' title='{about}' aria-label='{about}: open its passage'>"
        f"<span class='before'><bdi>{before}</bdi></span><mark>{token}</mark><span class='after'>{after}</span></a></li>"
    )
