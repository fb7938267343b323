"""Routing: what it costs to let other tokens go deep, and how much of that is the gate."""

import pandas as pd
import streamlit as st

from db import swaps
from db.router import BINS, QUANTITIES
from db.study import Study
from pages.parts import choices, exhibit, filters, reading, routing, shell, words
from pages.parts.answers import ask

TITLE = "Does it matter which tokens go deep?"
QUESTION = (
    "Run the same model again and let other tokens go deep: random ones, those the router likes least, all, or none. "
    "The loss this adds is what the router's choice is worth."
)
NOT_RUN = "No other routing was run for {checkpoint}, so there is nothing to compare with its router."
NO_VALUES = "The file holds no {quantity} of {checkpoint}'s router for these positions."
BY = {"depth": "depth", "vanilla loss": "loss", "vanilla entropy": "entropy"}
NOT_OPEN = "{checkpoint} was not run with its gate held open, so the gate's part is not known."
FIRST = ("random", "shuffled", "inverted")


def show_costs(study: Study, checkpoint: str, where: str | None) -> None:
    """What every policy adds, beside what it computes."""
    frame = ask_swaps(study, checkpoint, where)
    if frame is None:
        return
    against = st.segmented_control("Added loss by", ["policy", "block share"], default="policy", required=True, key="against", bind="query-params")
    compared = frame.dropna(subset="added_loss")
    exhibit.show(
        study,
        frame,
        routing.costs(compared, against),
        name="added_loss",
        caption=f"n = {frame['n'].max():,} positions under {checkpoint}. {words.about_intervals(frame['sequences'])}",
        origin=routing.standing(study.checkpoint(checkpoint)["kind"]),
        where=where,
        table=routing.table(frame),
        sql=study.statement("shown_swaps", where, checkpoint=checkpoint, columns=[f"loss_{policy}" for policy in frame["policy"]]),
        alternative=routing.spoken(compared, "added_loss"),
    )


def show_gate(study: Study, checkpoint: str, where: str | None) -> None:
    """How much of what a policy adds is the gate's doing."""
    frame = ask_swaps(study, checkpoint, where)
    if frame is None:
        return
    known = frame.dropna(subset="gate_effect")
    if known.empty:
        st.info(NOT_OPEN.format(checkpoint=checkpoint), icon=":material/info:")
        return
    exhibit.show(
        study,
        known,
        routing.effects(known),
        name="gate_effect",
        caption=f"n = {known['n'].max():,} positions under {checkpoint}, paired by sequence. {words.about_intervals(known['sequences'])}",
        origin="exploratory",
        where=where,
        table=routing.table(known)[["policy", "gate effect, nats", "n"]],
        sql=study.statement("shown_swaps", where, checkpoint=checkpoint, columns=[f"loss_{policy}" for policy in frame["policy"]]),
        alternative=routing.spoken(known, "gate_effect"),
    )
    st.markdown("\n".join(f"- {routing.gate_effect(row)}" for _, row in known.iterrows()))


def ask_swaps(study: Study, checkpoint: str, where: str | None) -> pd.DataFrame | None:
    """The policies that were run, after what they say in words; None where there is nothing to compare, which is said."""
    frame = routing.labelled(ask(study, "swaps", checkpoint, where))
    if not frame["n"].sum():
        st.info(exhibit.FILTERED, icon=":material/info:")
        return None
    if frame["added_loss"].isna().all():
        st.info(NOT_RUN.format(checkpoint=checkpoint), icon=":material/info:")
        return None
    if said := routing.answer(frame, swaps.random_policy(frame["policy"].tolist())):
        st.markdown(said)
    return frame


def show_costs_by(study: Study, checkpoint: str, where: str | None) -> None:
    """Where a policy adds: at which depth, in which decile."""
    by = BY[st.segmented_control("By", list(BY) if study.reference else ["depth"], default="depth", required=True, key="where", bind="query-params")]
    found = routing.labelled(ask(study, "swaps_by", checkpoint, by, where)).dropna(subset="added_loss")
    names = found["swap"].drop_duplicates().tolist()
    first = [name for name in names if name in FIRST] or names[:1]
    chosen = st.pills("Policies", names, selection_mode="multi", default=first, key="policies", bind="query-params") if names else []
    rows = found[found["swap"].isin(chosen)]
    if rows.empty:
        st.info("Choose a policy to show." if names else exhibit.FILTERED if where else NOT_RUN.format(checkpoint=checkpoint), icon=":material/info:")
        return
    policies = ["router", "router_open", *rows["policy"].unique()]
    exhibit.show(
        study,
        rows,
        routing.costs_by(rows, by, names),
        name="added_loss_by",
        caption=f"n = {rows.groupby('policy')['n'].sum().max():,} positions under {checkpoint}. {words.about_intervals(rows['sequences'])}",
        origin="exploratory",
        where=where,
        table=routing.table_by(rows, by),
        sql=study.statement("shown_swaps_by", where, checkpoint=checkpoint, by=by, columns=[f"loss_{policy}" for policy in policies]),
    )


def show_router(study: Study, checkpoint: str, where: str | None) -> None:
    """What the router gives to kept and to dropped tokens."""
    kind = study.checkpoint(checkpoint)["kind"]
    left, right = st.columns([2, 3])
    quantity = left.segmented_control("Of the router, its", list(QUANTITIES), default="probability", required=True, key="of_router", bind="query-params")
    found = ask(study, "router", checkpoint, quantity, where)
    recursions = [int(recursion) for recursion in found.means["recursion"].unique()]
    if not recursions:
        st.info(exhibit.FILTERED if where else NO_VALUES.format(quantity=quantity, checkpoint=checkpoint), icon=":material/info:")
        return
    label = "At recursion" if kind == "expert" else "Of depth"
    recursion = right.segmented_control(label, recursions, default=recursions[-1], required=True, key="at", bind="query-params")
    sentence = routing.separation(found.means, kind, quantity)
    st.markdown(f"{sentence} {routing.tied(found.means)}")
    rows = found.values[found.values["recursion"] == recursion]
    is_expert = kind == "expert"
    exhibit.show(
        study,
        rows,
        routing.spread(rows, kind, quantity),
        name=quantity,
        caption=f"n = {rows['n'].sum():,} positions under {checkpoint}, scored or not. {words.about_intervals(found.means['sequences'])}",
        origin="exploratory",
        where=where,
        table=routing.means(found.means, kind),
        sql=study.statement("router_values", where, checkpoint=checkpoint, column=f"{quantity}_{recursion}", recursion=recursion, is_expert=is_expert, bins=BINS),
        alternative=sentence,
    )


VIEWS = {"added loss": show_costs, "the gate": show_gate, "by depth or decile": show_costs_by, "the router": show_router}


with shell.page(TITLE, QUESTION) as study:
    where = filters.choose(study)
    if not study.routed:
        st.info(choices.NO_ROUTER, icon=":material/info:")
        st.stop()
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    view = left.segmented_control("Show", list(VIEWS), default="added loss", required=True, key="routing", bind="query-params")
    with right:
        checkpoint = choices.checkpoint(study)
    with st.spinner("Computing …", show_time=True):
        VIEWS[view](study, checkpoint, where)
    reading.show(study, [checkpoint], where, routing.HOW)
