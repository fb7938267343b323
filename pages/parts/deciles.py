"""The views of the page Deciles: each a question to the study and an exhibit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from db.study import Study
from pages.parts import charts, exhibit, filters, tables, words
from pages.parts.answers import of_each

GATES = {"as trained": ["benefit"], "held open": ["benefit_open"], "both": ["benefit", "benefit_open"]}
GATE_WORDS = {"benefit": "gate as trained", "benefit_open": "gate held open"}
BENEFIT = """
**Benefit of depth** is the loss when every token stops after one recursion, minus the loss when every token runs all of
them, under the same model. Above zero, depth helps.
"""
NOT_RUN = "No checkpoint here was run at depth 1 and at full depth with its {}, so there is no benefit to show."


@dataclass(frozen=True)
class Asked:
    """What the reader chose: whose deciles, of what, of the file or within the filter, in one figure or several."""

    study: Study
    checkpoints: list[str]
    where: str | None
    by: str
    within: bool
    apart: bool

    @property
    def recursions(self) -> int:
        return max(map(self.study.recursions, self.checkpoints))

    def frame(self, question: str, figures: list[str], by: str | None = None) -> pd.DataFrame:
        """Rows with positions of `deciles` or `depths_by_decile` with some figures, for each checkpoint."""
        found = of_each(self.study, question, self.checkpoints, by or self.by, self.where, self.within, figures)
        return found[found["n"] > 0].copy()

    def sql(self, name: str, by: str | None = None) -> str:
        return self.study.statement(name, self.where, self.within, scale=by or self.by, checkpoints=self.checkpoints)


def depth(asked: Asked) -> None:
    """Mean depth in each decile."""
    frame = asked.frame("deciles", ["mean_depth"])
    sentence = words.depth_by_decile(frame)
    st.markdown(sentence)
    chart = charts.depth_by_decile(frame, asked.study.routed, asked.recursions, asked.by, asked.apart)
    _exhibit(asked, frame, chart, "depth_by_decile", "mean_depth", 2, asked.sql("shown_deciles"), words.plain(sentence))


def shares(asked: Asked) -> None:
    """The share of each depth in each decile."""
    frame = asked.frame("depths_by_decile", ["share"])
    frame["of"] = frame.groupby(["checkpoint", "decile"])["n"].transform("sum")
    chart = charts.depth_shares(frame, asked.recursions, asked.by)
    _exhibit(asked, frame, chart, "depth_shares", "share", 3, asked.sql("shown_depths_by_decile"), f"The share of each depth in each decile of vanilla {asked.by}, as in the table.")


def losses(asked: Asked) -> None:
    """Mean vanilla loss at each depth."""
    found = of_each(asked.study, "depths", asked.checkpoints, asked.where)
    frame = found[found["n"] > 0]
    sentence = words.loss_by_depth(frame)
    st.markdown(sentence)
    sql = asked.study.statement("shown_depths", asked.where, checkpoints=asked.checkpoints)
    _exhibit(asked, frame, charts.loss_by_depth(frame, asked.study.routed, asked.apart), "loss_by_depth", "vanilla_loss", 3, sql, words.plain(sentence), picks=("depth",))


def benefit(asked: Asked) -> None:
    """Benefit in each decile of loss and, beside it, of entropy."""
    st.markdown(BENEFIT)
    values = _choose_gate()
    frames = {by: asked.frame("deciles", values, by) for by in charts.ENDS}
    domain = charts.shared_domain(frames.values(), *values)
    for value in values:
        for column, (by, frame) in zip(st.columns(2), frames.items()):
            with column:
                _benefit(asked, frame, value, by, domain)


def _benefit(asked: Asked, frame: pd.DataFrame, value: str, by: str, domain: list[float]) -> None:
    sentence = f"{GATE_WORDS[value].capitalize()}. {words.benefit_by_decile(frame, value, by)}"
    st.markdown(sentence)
    chart = charts.benefit_by_decile(frame, asked.study.routed, value, by, domain, asked.apart)
    _exhibit(asked, frame.dropna(subset=[value]), chart, f"{value}_by_{by}", value, 3, asked.sql("shown_deciles", by), words.plain(sentence), by=by)


def benefit_by_depth(asked: Asked) -> None:
    """Benefit at each depth in each decile as a heat map."""
    st.markdown(BENEFIT)
    values = _choose_gate()
    counted = asked.frame("depths_by_decile", values)
    for value in values:
        frame = counted.dropna(subset=[value])
        if frame.empty and len(counted):
            st.info(NOT_RUN.format(GATE_WORDS[value]), icon=":material/info:")
            continue
        st.markdown(f"{GATE_WORDS[value].capitalize()}, in nats; blue where depth helps, orange where it costs.")
        chart = charts.benefit_by_depth(frame, value, asked.by)
        _exhibit(asked, frame, chart, f"{value}_by_depth", value, 3, asked.sql("shown_depths_by_decile"), f"Mean benefit at each depth in each decile of vanilla {asked.by}, as in the table.")


def _choose_gate() -> list[str]:
    gate = st.segmented_control("Router's gate", list(GATES), default="as trained", required=True, key="gate", bind="query-params")
    return GATES[gate]


def _exhibit(
    asked: Asked, frame: pd.DataFrame, chart: Any, name: str, value: str, digits: int, sql: str, alternative: str, by: str | None = None, picks: tuple[str, ...] = ("decile", "depth")
) -> None:
    if frame.empty:
        exhibit.show(asked.study, frame, name=name, caption="", origin="exploratory", where=asked.where)
        return
    index = [column for column in ("decile", "depth") if column in frame]
    counts, behind = frame.groupby("checkpoint", sort=False)["n"].sum(), frame.get("of", frame["n"])
    number = f"{counts.min():,}" if counts.nunique() == 1 else f"{counts.min():,} to {counts.max():,}"
    exhibit.show(
        asked.study,
        frame,
        chart,
        name=name,
        caption=f"n = {number} positions. {words.about_intervals(frame['sequences'])}{charts.scarce(behind)}",
        origin="exploratory",
        where=asked.where,
        table=tables.spread(frame, index, value, digits),
        sql=sql,
        alternative=alternative,
        pick=_narrow(by or asked.by, picks) if not asked.within else None,
    )


def _narrow(by: str, picks: tuple[str, ...]) -> Callable[[dict[str, Any]], None]:
    """Makes the mark that was clicked the filter. Deciles within the filter are none of the file's, so they cannot be one."""

    def narrow(point: dict[str, Any]) -> None:
        parts: dict[str, Any] = {}
        if "decile" in picks and "decile" in point:
            parts |= dict.fromkeys((f"{by}_decile_from", f"{by}_decile_to"), int(point["decile"]))
        if "depth" in picks and "depth" in point:
            parts["depths"] = [int(point["depth"])]
        filters.become(**parts)

    return narrow


VIEWS = {"depth": depth, "share of each depth": shares, "loss by depth": losses, "benefit": benefit, "benefit by depth": benefit_by_depth}
