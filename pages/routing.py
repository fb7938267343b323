"""Routing: what it costs to let other tokens go deep, and how much of that is the gate."""

import pandas as pd
import streamlit as st

from db import swaps
from db.rules import origin
from db.study import Study
from pages.parts import charts, choices, exhibit, filters, routing, shell, words
from pages.parts.answers import ask

TITLE = "Does it matter which tokens go deep?"
QUESTION = (
    "Run the same model again and let other tokens go deep: random ones, those the router likes least, all, or none. "
    "The loss this adds is what the router's choice is worth."
)
HOW = """
*Added loss* is the mean loss under a policy less that under the router, in nats, over the same positions. The router's **gate** weighs what a
recursion adds to a token. Under a swap it stays the router's own, so a token that is sent deeper than its router wanted is added
with a weight near zero, and the swap looks harmless. *Held open*, the gate weighs every token alike; an open policy is compared with the open router.

*Gate effect* = (open policy − open router) − (policy − router). Above zero, the trained gate hides a part of what the swap costs.
*Router's depths again*, held open, is the router's own choice of tokens with the gate opened: what the opening does by itself.

*Block share* is the share of executed recursions among R for every position: what was computed for that loss.
"""
NOT_RUN = "No other routing was run for {checkpoint}, so there is nothing to compare with its router."
NO_VALUES = "The file holds no {quantity} of {checkpoint}'s router for these positions."
BY = {"depth": "depth", "vanilla loss": "loss", "vanilla entropy": "entropy"}
FIRST = ("random", "shuffled", "inverted")


def show_costs(study: Study, checkpoint: str, frame: pd.DataFrame, where: str | None) -> None:
    tested = swaps.random_policy(frame["policy"].tolist())
    rows = frame.set_index("policy")
    names = {tested: f"{tested} routing".capitalize(), f"{tested}_open": "The same with gates held open"}
    st.markdown("\n".join(f"- {routing.cost(rows.loc[policy], name)}" for policy, name in names.items() if tested and policy in rows.index))
    with st.expander("How this is computed"):
        st.markdown(HOW)
    against = st.segmented_control("Added loss by", ["policy", "block share"], default="policy", required=True, key="against", bind="query-params")
    preset = "pre-set" if tested and origin(study.checkpoint(checkpoint)["kind"], tested, None) == "pre-set" else None
    exhibit.show(
        study,
        frame,
        routing.costs(frame.dropna(subset="added_loss"), "added_loss", against),
        name="added_loss",
        caption=f"n = {frame['n'].max():,} positions under {checkpoint}. {words.about_intervals(frame['sequences'])}",
        origin="random routing under the gate as trained is pre-set, all else exploratory" if preset else "exploratory",
        where=where,
        table=routing.table(frame),
        sql=study.statement("group_sums", where, checkpoint=checkpoint, scale="loss", columns=[f"loss_{policy}" for policy in frame["policy"]]),
    )


def show_gate(study: Study, checkpoint: str, frame: pd.DataFrame, where: str | None) -> None:
    known = frame.dropna(subset="gate_effect")
    st.header("Is it the depth or the gate?", anchor=False)
    if known.empty:
        st.info(f"{checkpoint} was not run with gates held open.", icon=":material/info:")
        return
    st.markdown("\n".join(f"- {routing.gate_effect(row)}" for _, row in known.iterrows()))
    exhibit.show(
        study,
        known,
        routing.costs(known, "gate_effect", "policy"),
        name="gate_effect",
        caption=f"n = {known['n'].max():,} positions under {checkpoint}, paired by sequence. {words.about_intervals(known['sequences'])}",
        origin="exploratory",
        where=where,
        table=routing.table(known)[["policy", "gate effect, nats", "n"]],
    )


def show_costs_by(study: Study, checkpoint: str, frame: pd.DataFrame, where: str | None) -> None:
    st.header("Where does it cost?", anchor=False)
    left, right = st.columns([2, 3])
    by = BY[left.segmented_control("By", list(BY) if study.reference else ["depth"], default="depth", required=True, key="by", bind="query-params")]
    names = frame.dropna(subset="added_loss")["swap"].drop_duplicates().tolist()
    chosen = right.pills("Policies", names, selection_mode="multi", default=[name for name in names if name in FIRST] or names[:1], key="policies", bind="query-params")
    found = routing.labelled(ask(study, "swaps_by", checkpoint, by, where))
    found = found[found["swap"].isin(chosen)].dropna(subset="added_loss")
    if found.empty:
        st.info("Choose a policy to show." if not chosen else exhibit.FILTERED, icon=":material/info:")
        return
    domain = charts.shared_domain([found], "added_loss")
    for column, (gate, title) in zip(st.columns(2), routing.GATES.items()):
        rows = found[found["held"] == title]
        with column:
            st.subheader(title.capitalize(), anchor=False)
            exhibit.show(
                study,
                rows,
                routing.costs_by(rows, by, names, domain),
                name=f"added_loss_{gate}",
                caption=f"n = {rows.groupby('policy')['n'].sum().max():,} positions under {checkpoint}. {words.about_intervals(rows['sequences'])}",
                origin="exploratory",
                where=where,
                table=routing.table_by(rows, by),
            )


def show_router(study: Study, checkpoint: str, where: str | None) -> None:
    st.header("How sure is the router?", anchor=False)
    kind = study.checkpoint(checkpoint)["kind"]
    left, right = st.columns([2, 3])
    quantity = left.segmented_control("Of the router, its", ["probability", "margin"], default="probability", required=True, key="sure", bind="query-params")
    found = ask(study, "router", checkpoint, quantity, where)
    recursions = [int(recursion) for recursion in found.means["recursion"].unique()]
    if not recursions:
        st.info(NO_VALUES.format(quantity=quantity, checkpoint=checkpoint), icon=":material/info:")
        return
    recursion = right.segmented_control("At recursion", recursions, default=recursions[-1], required=True, key="at", bind="query-params")
    st.markdown(f"{routing.separation(found.means, kind, quantity)} {routing.tied(found.means)}")
    rows = found.values[found.values["recursion"] == recursion]
    exhibit.show(
        study,
        rows,
        routing.probabilities(rows, kind, quantity),
        name="router",
        caption=f"n = {rows['n'].sum():,} positions under {checkpoint}, scored or not. {words.about_intervals(found.means['sequences'])}",
        origin="exploratory",
        where=where,
        table=routing.means(found.means, kind),
    )


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed:
        st.info(choices.NO_ROUTER, icon=":material/info:")
        st.stop()
    checkpoint = choices.checkpoint(study)
    frame = routing.labelled(ask(study, "swaps", checkpoint, where))
    if not frame["n"].sum():
        st.info(exhibit.FILTERED, icon=":material/info:")
    elif frame["added_loss"].isna().all():
        st.info(NOT_RUN.format(checkpoint=checkpoint), icon=":material/info:")
    else:
        show_costs(study, checkpoint, frame, where)
        show_gate(study, checkpoint, frame, where)
        show_costs_by(study, checkpoint, frame, where)
    show_router(study, checkpoint, where)
