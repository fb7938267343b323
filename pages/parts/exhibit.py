"""An exhibit: a chart with its table under it, and all that a reader needs to check it or take it away."""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
import vl_convert

from db.study import Study
from pages.parts import charts, filters, shell, words

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "＝", "＋", "－", "＠")
FILTERED = "Nothing to show: no position passes the filter. Widen it, or clear it, in the sidebar."
EMPTY = "Nothing to show: the file holds nothing of this kind."
WIDTH = 700  # px of a figure that is taken away


def show(
    study: Study,
    frame: pd.DataFrame,
    chart: charts.Figures | None = None,
    *,
    name: str,
    caption: str,
    origin: str,
    where: str | None,
    columns: Mapping[str, Any] | None = None,
    table: pd.DataFrame | None = None,
    sql: str | None = None,
    alternative: str | None = None,
    pick: Callable[[dict[str, Any]], None] | None = None,
    row: Callable[[pd.Series], None] | None = None,
) -> None:
    """A chart, its table, and a menu with the table as CSV, the chart as SVG and the SQL.

    frame: the data, one row a mark. name: key of the exhibit and stem of its files, once a page.
    caption: n, and what the intervals are. origin: `pre-set` or `exploratory`; a filter makes it the
    latter. columns: those shown, in order, with their column_config (or None). table: a frame to show
    in place of `frame`. sql: a statement that gives the data, see Study.statement. alternative: the
    chart in a sentence, for those who do not see it. Several charts stand in two columns. pick: is called, as a callback, with the fields of
    the mark that was chosen; the chart has a selection named `picked` then. row: the same with the row
    of `frame` chosen in the table.
    """
    if frame.empty:
        st.info(FILTERED if where else EMPTY, icon=":material/info:")
        return
    if chart is not None:
        _draw(chart, f"{name}_chart", alternative or caption, pick)
    stated = f"{caption} {standing(origin, where).capitalize()}."
    st.caption(stated)
    _table(frame, table, columns, f"{name}_table", row)
    with st.popover("Take away", icon=":material/download:", type="tertiary"):
        _menu(study, frame, chart, name, stated, where, sql)


def standing(origin: str, where: str | None) -> str:
    """The origin under a filter, which makes everything exploratory."""
    return "exploratory" if where else origin


def csv(frame: pd.DataFrame) -> bytes:
    """The frame as UTF-8 CSV; text that a spreadsheet would run as a formula gets an apostrophe in front."""
    safe = frame.rename(columns=_harmless)
    for name in safe.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in safe.dtypes]]:
        safe[name] = safe[name].map(_harmless)
    return safe.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig")


def svg(chart: charts.Figures, caption: str, theme: str = "light") -> bytes:
    """The chart as SVG with its caption below; `theme` is the one that its colours are made for."""
    lines = alt.TitleParams(text=_lines(caption), orient="bottom", anchor="start", fontSize=11, fontWeight="normal", offset=16)
    if isinstance(chart, list):
        several = alt.concat(*(_still(figure).properties(width=WIDTH // 2) for figure in chart), columns=2)
        drawn = several.resolve_scale(color="independent", shape="independent").properties(title=lines)
    else:
        drawn = chart.properties(title=lines, width=WIDTH)
    return vl_convert.vegalite_to_svg(drawn.to_dict(), theme="dark" if theme == "dark" else None).encode()


def _draw(chart: charts.Figures, key: str, alternative: str, pick: Callable[[dict[str, Any]], None] | None) -> None:
    """One figure, or several in two columns, all described by the same words."""
    figures = chart if isinstance(chart, list) else [chart]
    places = itertools.cycle(st.columns(2) if len(figures) > 1 else [st.container()])
    for number, (figure, place) in enumerate(zip(figures, places)):
        own = f"{key}_{number}"
        chosen = {"on_select": functools.partial(_picked, own, pick), "selection_mode": "picked"} if pick else {}
        place.altair_chart(figure, key=own, alt=alternative, **chosen)


def _table(frame: pd.DataFrame, table: pd.DataFrame | None, columns: Mapping[str, Any] | None, key: str, row: Callable[[pd.Series], None] | None) -> None:
    shown, columns = frame if table is None else table, columns or {}
    counted = {name: st.column_config.NumberColumn(format="localized") for name in shown if pd.api.types.is_integer_dtype(shown[name])}
    options = {"column_config": counted | {name: how for name, how in columns.items() if how}, "column_order": list(columns) or None}
    if row:
        options |= {"on_select": lambda: _chosen(key, frame, row), "selection_mode": "single-row", "key": key}
    st.dataframe(shown, hide_index=True, height="content" if len(frame) <= 40 else "auto", **options)


def _menu(study: Study, frame: pd.DataFrame, chart: charts.Figures | None, name: str, stated: str, where: str | None, sql: str | None) -> None:
    st.download_button("Data as CSV", lambda: csv(frame), f"{name}.csv", "text/csv", key=f"{name}_csv", on_click="ignore", icon=":material/table:")
    if chart is not None:
        whole, theme = words.plain(f"{filters.sentence()} {stated} {study.name}"), charts.theme()
        st.download_button("Figure as SVG", lambda: svg(chart, f"{whole}, SHA-256 {study.sha256}.", theme), f"{name}.svg", "image/svg+xml", key=f"{name}_svg", on_click="ignore", icon=":material/image:")
    if sql:
        if "sql" in shell.NAMES:
            st.page_link(shell.page_of("sql"), label="Open on the SQL page", icon=":material/terminal:", query_params={"query": sql})
        st.code(sql, "sql", height=240)


def _still(figure: alt.Chart | alt.LayerChart) -> alt.Chart | alt.LayerChart:
    """The figure without what can be clicked in it: figures in one drawing must not share a selection."""
    still = figure.copy()
    for part in (still, *getattr(still, "layer", ())):
        part.params = alt.Undefined
    return still


def _picked(key: str, pick: Callable[[dict[str, Any]], None]) -> None:
    if points := st.session_state[key].selection.get("picked"):
        pick(points[0])


def _chosen(key: str, frame: pd.DataFrame, row: Callable[[pd.Series], None]) -> None:
    if rows := st.session_state[key].selection.rows:
        row(frame.iloc[rows[0]])


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULAS) else cell


def _lines(text: str, width: int = 110) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return lines
