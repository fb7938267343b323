"""The figures of a checkpoint as lines of the study's tables: one row is a figure with its words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from db.correlation import largest_rho
from db.figures import Figures
from db.intervals import Estimate
from db.rules import origin

TITLES = {
    1: "Depth and difficulty: Spearman of depth with the reference's loss and entropy, mean over sequences",
    2: "The same after token and position effects are removed",
    3: "Depth shares, mean vanilla loss by depth (nats), block share (executed recursions / R × positions)",
    4: "Deciles of vanilla loss: mean depth, share of each depth",
    5: "Benefit of depth: loss at depth 1 less loss at full depth (nats)",
    6: "Token identity: depth of held-out sequences predicted from the token alone",
    7: "Token types by mean depth",
    8: "Routing swaps: loss under another routing less the router's (nats)",
}
FIGURES = {
    "spearman_loss": "with loss",
    "spearman_entropy": "with entropy",
    "partial_spearman_loss": "with loss",
    "partial_spearman_entropy": "with entropy",
    "spearman_benefit": "Spearman of depth with benefit",
    "r2": "R²",
    "modal_accuracy": "modal accuracy",
    "commonest_accuracy": "always the commonest depth",
    "largest_depth_share": "largest depth group",
}


def lines(found: Figures) -> pd.DataFrame:
    """One row is a figure: measure (1 to 8), figure (its key), label, checkpoint, value, low, high, n, sequences, reliable, origin.

    value is NaN where undefined; low and high where no interval is defined. Facts that have no interval
    (a maximum, a count, another split's spread) are rows too.
    """
    parts = (_difficulty, _partial, _depths, _deciles, _benefit, _lexical, _tokens, _swaps)
    rows = [{"measure": number, **row} for number, part in enumerate(parts, start=1) for row in part(found)]
    frame = pd.DataFrame(rows)
    preset = {1: "spearman_loss", 2: "partial_spearman_loss", 6: "lexical"}
    names = [preset.get(row.measure, "random" if row.figure == "added_loss.random" else "") for row in frame.itertuples()]
    frame["origin"] = [origin(found.kind, name, found.where) for name in names]
    return frame.assign(checkpoint=found.checkpoint)


def _line(figure: str, label: str, estimate: Estimate) -> dict:
    return estimate.row(figure=figure, label=label)


def _fact(figure: str, label: str, value: float, n: int) -> dict:
    """A number without an interval."""
    nothing = np.asarray(np.nan)
    return _line(figure, label, Estimate(np.asarray(value, dtype=np.float64), nothing, nothing, np.asarray(n), np.asarray(0)))


def _correlation(found: Figures, measure: str) -> Iterator[dict]:
    estimate = found.correlations[measure]
    yield _line(measure, FIGURES[measure], estimate)
    yield _fact(f"{measure}.squared", f"{FIGURES[measure]}, ρ²", float(estimate.value) ** 2, int(estimate.n))
    yield _fact(f"{measure}.left_out", f"{FIGURES[measure]}, sequences left out", found.sequences - int(estimate.sequences), found.scored)


def _difficulty(found: Figures) -> Iterator[dict]:
    yield from _correlation(found, "spearman_loss")
    yield from _correlation(found, "spearman_entropy")
    yield _fact("largest_rho", "largest the depth shares allow", largest_rho(found.depth_share.value) if found.recursions else np.nan, found.scored)


def _partial(found: Figures) -> Iterator[dict]:
    yield from _correlation(found, "partial_spearman_loss")
    yield from _correlation(found, "partial_spearman_entropy")
    yield _line("unexplained", "positions whose depth residual exceeds 0.05", found.unexplained)
    for row in [] if found.sensitivity is None else found.sensitivity.to_dict("records"):
        variant, measure = row.pop("variant"), row.pop("measure")
        yield {**row, "figure": f"{measure}.{variant.replace(' ', '_')}", "label": f"{FIGURES[measure]}, {variant}"}


def _depths(found: Figures) -> Iterator[dict]:
    for index in range(found.recursions):
        yield _line(f"depth_share.{index + 1}", f"share at depth {index + 1}", found.depth_share[index])
    for index in range(found.recursions):
        yield _line(f"loss_by_depth.{index + 1}", f"vanilla loss at depth {index + 1}", found.loss_by_depth[index])
    for index, policy in enumerate(found.policies):
        yield _line(f"block_share.{policy}", f"block share, {policy}", found.block_share[index])


def _deciles(found: Figures) -> Iterator[dict]:
    for decile in range(1, 11):
        yield _line(f"mean_depth_by_decile.{decile}", f"mean depth, decile {decile}", found.mean_depth_by_decile[decile - 1])
    for depth in range(1, found.recursions + 1):
        for decile in range(1, 11):
            yield _line(
                f"depth_share_by_decile.{decile}.{depth}", f"share at depth {depth}, decile {decile}", found.depth_share_by_decile[decile - 1, depth - 1]
            )


def _benefit(found: Figures) -> Iterator[dict]:
    by = {"loss decile": ("benefit_by_decile", "benefit_open_by_decile"), "entropy decile": ("benefit_by_entropy_decile", "benefit_open_by_entropy_decile")}
    by["depth"] = ("benefit_by_depth", "benefit_open_by_depth")
    for member, names in by.items():
        for name in names:
            estimate = getattr(found, name)
            gate = ", gate open" if "open" in name else ""
            for index in range(len(estimate.value)):
                yield _line(f"{name}.{index + 1}", f"{member} {index + 1}{gate}", estimate[index])
    values = found.benefit_by_decile.value
    best = int(np.nanargmax(values)) if not np.isnan(values).all() else 0
    yield _line("benefit_by_decile.highest", "highest of the loss deciles", found.benefit_by_decile[best])
    yield _line("spearman_benefit", FIGURES["spearman_benefit"], found.correlations["spearman_benefit"])


def _lexical(found: Figures) -> Iterator[dict]:
    for name, estimate in vars(found.lexical).items():
        yield _line("lexical_r2" if name == "r2" else name, f"{FIGURES[name]}, even → odd", estimate)
    others = [] if found.splits is None else found.splits.query("split != 'even → odd'").to_dict("records")
    for row in others:
        split, name = row.pop("split"), row.pop("figure")
        spread = " (mean, smallest, largest)" if split == "random halves" else ""
        yield {**row, "figure": f"{name}.{split.replace(' ', '_')}", "label": f"{FIGURES[name]}, {split}{spread}"}


def _tokens(found: Figures) -> Iterator[dict]:
    yield _fact("token_types", f"types with at least {found.minimum:,} occurrences", len(found.tokens), found.scored)
    special = found.tokens[found.tokens["is_special"].fillna(False)].head(1)
    for row in special.itertuples():
        yield _fact("end_of_text_depth", f"{row.token}, mean depth", row.mean_depth, row.n)
        yield _fact("end_of_text_loss", f"{row.token}, mean vanilla loss", row.mean_vanilla_loss, row.n)
        yield _fact("end_of_text_occurrences", f"{row.token}, occurrences", row.n, row.n)


def _swaps(found: Figures) -> Iterator[dict]:
    for index, policy in enumerate(found.policies):
        yield _line(f"mean_loss.{policy}", f"mean loss, {policy}", found.mean_loss[index])
    yield _line("mean_loss_first_500", "mean loss, router, first 500 sequences", found.mean_loss_first_500)
    for index, policy in enumerate(found.compared):
        yield _line(f"added_loss.{policy}", f"added by {policy}", found.added_loss[index])
    for index, policy in enumerate(found.gated):
        yield _line(f"gate_effect.{policy}", f"gate effect, {policy}", found.gate_effect[index])
    for index, policy in enumerate(found.compared):
        for name, member, estimate in (("depth", "depth", found.added_loss_by_depth), ("decile", "loss decile", found.added_loss_by_decile)):
            for place in range(estimate.value.shape[1]):
                yield _line(f"added_loss_by_{name}.{policy}.{place + 1}", f"added by {policy}, {member} {place + 1}", estimate[index, place])
