"""A quick chart of whatever columns a query gave."""

from collections.abc import Sequence

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.types as kinds
import streamlit as st

from db.study import Study
from pages.parts import charts, exhibit
from pages.parts.colours import CATEGORICAL

MARKS = ("none", "bars", "lines", "points")
CATEGORIES = 50  # numbers with at most so many values are bars side by side, others a scale
COLOURS = 20  # likewise for colour


def show(study: Study, table: pa.Table) -> None:
    """The choice of a chart, the chart and its figure to take away; nothing where no column is a number."""
    numbers, all_columns = columns(table)
    if not numbers or not table.num_rows:
        return
    mark = st.segmented_control("Chart", MARKS, default="none", required=True, key="chart", bind="query-params")
    if mark == "none":
        return
    x, y, colour = _ask(numbers, all_columns)
    figure = plot(frame(table, x, y, colour), mark, x, y, colour)
    said = f"{mark.capitalize()}: {y} by {x}{f', coloured by {colour}' if colour else ''}, {table.num_rows:,} rows."
    st.altair_chart(figure, key="plot", alt=said)
    stated, theme = f"{said} Exploratory. {study.name}, SHA-256 {study.sha256}.", charts.theme()
    st.download_button("Figure as SVG", lambda: exhibit.svg(figure, stated, theme), "query.svg", "image/svg+xml", on_click="ignore", icon=":material/image:")


def columns(table: pa.Table) -> tuple[list[str], list[str]]:
    """Names of the columns that are numbers, and of all that an axis can show."""
    fields = list(table.schema)
    numbers = [field.name for field in fields if is_number(field.type)]
    rest = [field.name for field in fields if kinds.is_string(field.type) or kinds.is_boolean(field.type) or kinds.is_temporal(field.type)]
    return numbers, [field.name for field in fields if field.name in {*numbers, *rest}]


def is_number(kind: pa.DataType) -> bool:
    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)


def frame(table: pa.Table, x: str, y: str, colour: str | None) -> pd.DataFrame:
    """The columns asked for as x, y and colour: names in a query may hold signs that mean something to a chart."""
    chosen = {"x": x, "y": y} | ({"colour": colour} if colour else {})
    arrays = [table.column(name) for name in chosen.values()]
    return pa.table([array.cast(pa.float64()) if kinds.is_decimal(array.type) else array for array in arrays], list(chosen)).to_pandas()


def plot(data: pd.DataFrame, mark: str, x: str, y: str, colour: str | None) -> alt.Chart:
    """`data`: see frame; x, y and colour are the titles."""
    kind = _kind(data["x"], CATEGORIES if mark == "bars" else 0)
    scale = alt.Scale(zero=False) if kind == "quantitative" else alt.Undefined
    horizontal = alt.X("x", type=kind, title=x, sort=None, scale=scale, axis=alt.Axis(labelAngle=0) if kind == "ordinal" else alt.Undefined)
    encoded = {"x": horizontal, "y": alt.Y("y:Q", title=y), "tooltip": [alt.Tooltip(name, title=title) for name, title in (("x", x), ("y", y))]}
    if colour:
        encoded |= _coloured(data["colour"], mark, colour)
    base = alt.Chart(data).properties(height=charts.HEIGHT)
    drawn = {"bars": base.mark_bar, "lines": lambda: base.mark_line(point=True), "points": lambda: base.mark_point(filled=True)}[mark]()
    return drawn.encode(**encoded)


def _ask(numbers: Sequence[str], all_columns: Sequence[str]) -> tuple[str, str, str | None]:
    first = next((name for name in all_columns if name not in numbers[-1:]), all_columns[0])
    across, up, by = st.columns(3)
    x = across.selectbox("Across", all_columns, index=all_columns.index(first), key="x", bind="query-params")
    y = up.selectbox("Up", numbers, index=len(numbers) - 1, key="y", bind="query-params")
    colour = by.selectbox("Coloured by", all_columns, index=None, key="by", bind="query-params", placeholder="nothing")
    return x, y, colour


def _coloured(values: pd.Series, mark: str, title: str) -> dict[str, alt.Color | alt.XOffset | alt.Tooltip]:
    kind = _kind(values, COLOURS)
    many = kind != "quantitative" and values.nunique() > len(CATEGORICAL["light"])
    scale = alt.Scale(range=CATEGORICAL[charts.theme()]) if kind in ("nominal", "ordinal") and not many else alt.Undefined
    encoded = {"color": alt.Color("colour", type=kind, title=title, scale=scale, sort=None)}
    return encoded | ({"xOffset": alt.XOffset("colour", type=kind, sort=None)} if mark == "bars" and kind != "quantitative" else {})


def _kind(values: pd.Series, categories: int) -> str:
    """The Vega type: numbers with few values are ordinal where `categories` allows it."""
    if pd.api.types.is_bool_dtype(values) or not (pd.api.types.is_numeric_dtype(values) or pd.api.types.is_datetime64_any_dtype(values)):
        return "nominal"
    if pd.api.types.is_datetime64_any_dtype(values):
        return "temporal"
    return "ordinal" if values.nunique() <= categories else "quantitative"
