"""The questions of the bench, each in this project's form and in pandas'."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db import lexical, swaps
from db.correlation import MINIMUM, spearman_by_sequence
from db.groups import Groups
from db.intervals import divide
from db.study import Study

FILTER = "token_id <> 0 and position >= 16"


@dataclass(frozen=True)
class Scene:
    """What is asked of: a study, one of its checkpoints, a sequence in the middle, a frequent token, the least occurrences of a list."""

    study: Study
    checkpoint: str
    sequence: int
    token_id: int
    minimum: int

    @property
    def policies(self) -> list[str]:
        return self.study.policies_of(self.checkpoint)

    @property
    def losses(self) -> list[str]:
        return [f"loss_{policy}" for policy in self.policies]

    @property
    def depths(self) -> list[str]:
        return [swaps.depth_column(policy) for policy in self.policies]

    def frame(self, name: str, where: str | None = None, **parameters) -> pd.DataFrame:
        return self.study.frame(name, where, checkpoint=self.checkpoint, **parameters)

    def groups(self, columns: list[str], where: str | None = None, within: bool = False) -> Groups:
        return self.study.groups(self.checkpoint, columns, "loss", where, within)


@dataclass(frozen=True)
class Memory:
    """What pandas holds of the checkpoint: all observations, the scored ones, those of them that pass FILTER."""

    every: pd.DataFrame
    scored: pd.DataFrame
    kept: pd.DataFrame


@dataclass(frozen=True)
class Question:
    """One question in both forms, which give the same numbers in the same order. `queries`: the named ones behind it."""

    name: str
    queries: tuple[str, ...]
    ask: Callable[[Scene], NDArray]
    pandas: Callable[[Scene, Memory], NDArray] | None = None


def _decile_means(groups: Groups) -> NDArray:
    n = groups.by_decile("positions").sum(axis=0)
    depth = groups.by_decile_and_depth("positions").sum(axis=0) @ np.arange(1, groups.depths + 1)
    return np.stack([divide(depth, n), divide(groups.by_decile("benefit").sum(axis=0), n)])


def _pandas_decile_means(frame: pd.DataFrame) -> NDArray:
    means = frame.groupby("loss_decile", observed=True).agg(depth=("depth", "mean"), benefit=("benefit", "mean"))
    return means.reindex(range(1, 11)).to_numpy(dtype=float).T


def _pandas_deciles_within(frame: pd.DataFrame) -> NDArray:
    order = np.argsort(frame["vanilla_loss"].to_numpy(), kind="stable")
    size, larger = divmod(len(frame), 10)
    decile = np.empty(len(frame), dtype=np.int64)
    decile[order] = np.repeat(np.arange(1, 11), [size + (tile < larger) for tile in range(10)])
    return _pandas_decile_means(frame.assign(loss_decile=decile))


def _token_means(frame: pd.DataFrame) -> NDArray:
    return frame[["token_id", "n", "mean_depth", "mean_vanilla_loss"]].to_numpy(dtype=float)


def _pandas_tokens(frame: pd.DataFrame, minimum: int) -> NDArray:
    types = frame.groupby("token_id").agg(n=("depth", "size"), depth=("depth", "mean"), loss=("vanilla_loss", "mean")).reset_index()
    types = types[types["n"] >= minimum]
    return types.sort_values(["depth", "token_id"], ascending=[False, True]).to_numpy(dtype=float)


def _r2(sums: pd.DataFrame) -> NDArray:
    total = sums.sum()
    variance = total["sum_squared_depth"] - total["sum_depth"] ** 2 / total["scored"]
    return np.array([1 - total["squared_error"] / variance, total["modal_right"] / total["scored"]])


def _pandas_r2(frame: pd.DataFrame) -> NDArray:
    fitted, held = frame[frame["sequence"] % 2 == 0], frame[frame["sequence"] % 2 == 1]
    depth = held["depth"].to_numpy(dtype=float)
    expected = held["token_id"].map(fitted.groupby("token_id")["depth"].mean()).fillna(fitted["depth"].mean())
    counts = fitted.groupby(["token_id", "depth"], observed=True).size().unstack(fill_value=0)
    commonest = counts.columns[counts.sum().to_numpy().argmax()]
    modal = held["token_id"].map(counts.idxmax(axis=1)).fillna(commonest)
    return np.array([1 - ((depth - expected) ** 2).sum() / ((depth - depth.mean()) ** 2).sum(), (modal == depth).mean()])


def _policy_means(scene: Scene, where: str | None) -> NDArray:
    groups = scene.groups(scene.losses, where)
    blocks = scene.study.blocks(scene.checkpoint, where)
    losses = np.array([groups.total(name).sum() for name in scene.losses]) / groups.positions.sum()
    return np.stack([losses, blocks[[f"sum_{name}" for name in scene.depths]].sum().to_numpy() / blocks["positions"].sum()])


def _pandas_policy_means(scene: Scene, scored: pd.DataFrame, every: pd.DataFrame) -> NDArray:
    losses = scored[scene.losses].to_numpy().mean(axis=0, dtype=float)
    return np.stack([losses, every[scene.depths].to_numpy().mean(axis=0, dtype=float)])


def _added_by_sequence(scene: Scene) -> NDArray:
    groups = scene.groups(["loss_depth_1", "loss_router"])
    return groups.total("loss_depth_1") - groups.total("loss_router")


def _pandas_added_by_sequence(frame: pd.DataFrame) -> NDArray:
    added = frame["loss_depth_1"].astype(float) - frame["loss_router"].astype(float)
    return added.groupby(frame["sequence"]).sum().to_numpy()


def _spearman(scene: Scene, where: str | None) -> NDArray:
    rows = scene.study.rows(scene.checkpoint, ["depth", "vanilla_loss"], where)
    return spearman_by_sequence(rows["sequence"].to_numpy(), rows["depth"].to_numpy(), rows["vanilla_loss"].to_numpy())[1]


def _pandas_spearman(frame: pd.DataFrame) -> NDArray:
    ranks = frame.groupby("sequence")[["depth", "vanilla_loss"]].rank()
    ranks -= ranks.groupby(frame["sequence"]).transform("mean")
    x, y = ranks["depth"], ranks["vanilla_loss"]
    sums = pd.DataFrame({"xy": x * y, "xx": x * x, "yy": y * y, "n": 1}).groupby(frame["sequence"]).sum()
    return (sums["xy"] / np.sqrt(sums["xx"] * sums["yy"])).where(sums["n"] >= MINIMUM).to_numpy()


def _pandas_depth_shares(frame: pd.DataFrame) -> NDArray:
    means = frame.groupby("depth", observed=True).agg(n=("depth", "size"), loss=("vanilla_loss", "mean"))
    return np.stack([means["n"] / means["n"].sum(), means["loss"]])


QUESTIONS = [
    Question("facts of the file", ("meta", "checkpoints", "policies", "dictionary", "sequences", "token_text", "counts"), lambda scene: np.array(
        [len(scene.study.frame(name)) for name in ("meta", "checkpoints", "policies", "dictionary", "sequences", "token_text", "counts")])),
    Question("one passage, all policies", ("passage",), lambda scene: scene.study.passage(scene.checkpoint, scene.sequence)[scene.losses].to_numpy(dtype=float),
        lambda scene, memory: memory.every.loc[memory.every["sequence"] == scene.sequence, scene.losses].to_numpy(dtype=float)),
    Question("positions of a passage that pass", ("passing",), lambda scene: scene.frame("passing", FILTER, sequence=scene.sequence)["position"].to_numpy(),
        lambda scene, memory: memory.every.query(f"sequence == {scene.sequence} and token_id != 0 and position >= 16")["position"].to_numpy()),
    Question("all losses, sorted", ("sorted_losses",), lambda scene: scene.study.frame("sorted_losses")["vanilla_loss"].to_numpy(),
        lambda scene, memory: np.sort(memory.scored["vanilla_loss"].to_numpy())),
    Question("deciles", ("stored_group_sums",), lambda scene: _decile_means(scene.groups(["benefit"])),
        lambda scene, memory: _pandas_decile_means(memory.scored)),
    Question("deciles, filtered", ("group_sums",), lambda scene: _decile_means(scene.groups(["benefit"], FILTER)),
        lambda scene, memory: _pandas_decile_means(memory.kept)),
    Question("deciles within the filter", ("group_sums",), lambda scene: _decile_means(scene.groups(["benefit"], FILTER, within=True)),
        lambda scene, memory: _pandas_deciles_within(memory.kept)),
    Question("token list", ("stored_token_sums",), lambda scene: _token_means(scene.study.tokens(scene.checkpoint, scene.minimum)),
        lambda scene, memory: _pandas_tokens(memory.scored, scene.minimum)),
    Question("token list, filtered", ("token_sums",), lambda scene: _token_means(scene.study.tokens(scene.checkpoint, scene.minimum, FILTER)),
        lambda scene, memory: _pandas_tokens(memory.kept, scene.minimum)),
    Question("lexical, even to odd", ("stored_held_out",), lambda scene: _r2(scene.study.held_out(scene.checkpoint)),
        lambda scene, memory: _pandas_r2(memory.scored)),
    Question("lexical, filtered", ("learnt_cells", "held_out_cells"), lambda scene: _r2(scene.study.held_out(scene.checkpoint, FILTER)),
        lambda scene, memory: _pandas_r2(memory.kept)),
    Question("swaps: one policy less the router, by sequence", ("stored_group_sums",), _added_by_sequence,
        lambda scene, memory: _pandas_added_by_sequence(memory.scored)),
    Question("all policies: mean loss, block share", ("stored_group_sums", "block_sums"), lambda scene: _policy_means(scene, None),
        lambda scene, memory: _pandas_policy_means(scene, memory.scored, memory.every)),
    Question("all policies, filtered", ("group_sums", "block_sums"), lambda scene: _policy_means(scene, FILTER),
        lambda scene, memory: _pandas_policy_means(scene, memory.kept, memory.every.query("token_id != 0 and position >= 16"))),
    Question("Spearman in each sequence, stored", ("stored_correlations",), lambda scene: scene.study.by_sequence(scene.checkpoint)["spearman_loss"].to_numpy(),
        lambda scene, memory: _pandas_spearman(memory.scored)),
    Question("Spearman in each sequence", ("scored_positions",), lambda scene: _spearman(scene, "true"),
        lambda scene, memory: _pandas_spearman(memory.scored)),
    Question("Spearman in each sequence, filtered", ("scored_positions",), lambda scene: _spearman(scene, FILTER),
        lambda scene, memory: _pandas_spearman(memory.kept)),
    Question("loss of the reference", ("reference_losses",), lambda scene: scene.study.reference_losses([scene.checkpoint])["sum_vanilla_loss"].to_numpy(),
        lambda scene, memory: memory.scored["vanilla_loss"].astype(float).groupby(memory.scored["sequence"]).sum().to_numpy()),
    Question("loss of the reference, filtered", ("kept_reference_losses",),
        lambda scene: scene.study.reference_losses([scene.checkpoint], FILTER)["sum_vanilla_loss"].to_numpy(),
        lambda scene, memory: memory.kept["vanilla_loss"].astype(float).groupby(memory.kept["sequence"]).sum().to_numpy()),
    Question("positions that pass", ("kept_counts",), lambda scene: scene.study.kept(FILTER).set_index("checkpoint").loc[scene.checkpoint, ["scored", "sequences"]].to_numpy(dtype=int),
        lambda scene, memory: np.array([len(memory.kept), memory.kept["sequence"].nunique()])),
    Question("depth shares, loss by depth", ("shown_depths",), lambda scene: scene.study.frame("shown_depths", checkpoints=[scene.checkpoint])[["share", "vanilla_loss"]].to_numpy().T,
        lambda scene, memory: _pandas_depth_shares(memory.scored)),
    Question("deciles, as shown SQL", ("shown_deciles",), lambda scene: scene.study.frame("shown_deciles", checkpoints=[scene.checkpoint], scale="loss")[["mean_depth", "benefit"]].to_numpy().T,
        lambda scene, memory: _pandas_decile_means(memory.scored)),
    Question("deciles by depth, as shown SQL", ("shown_depths_by_decile",), lambda scene: scene.study.frame("shown_depths_by_decile", checkpoints=[scene.checkpoint], scale="loss")["n"].to_numpy(),
        lambda scene, memory: memory.scored.groupby(["loss_decile", "depth"], observed=True).size().to_numpy()),
    Question("token list, as shown SQL", ("shown_tokens",), lambda scene: _token_means(scene.frame("shown_tokens", minimum=scene.minimum)),
        lambda scene, memory: _pandas_tokens(memory.scored, scene.minimum)),
    Question("lexical, as shown SQL", ("shown_lexical",), lambda scene: scene.study.frame("shown_lexical", checkpoints=[scene.checkpoint])[["r2", "modal_accuracy"]].to_numpy()[0],
        lambda scene, memory: _pandas_r2(memory.scored)),
    Question("tokens identity explains worst, as shown SQL", ("shown_lexical_tokens",), lambda scene: scene.frame("shown_lexical_tokens", minimum=scene.minimum)["n"].to_numpy()),
    Question("policies, as shown SQL", ("shown_swaps",), lambda scene: scene.frame("shown_swaps", columns=scene.losses)[[f"mean_{name}" for name in scene.losses]].to_numpy()[0],
        lambda scene, memory: memory.scored[scene.losses].to_numpy().mean(axis=0, dtype=float)),
    Question("policies by decile, as shown SQL", ("shown_swaps_by",), lambda scene: scene.frame("shown_swaps_by", columns=scene.losses, by="loss")["n"].to_numpy(),
        lambda scene, memory: memory.scored.groupby("loss_decile", observed=True).size().to_numpy()),
    Question("a token in context", ("occurrences",), lambda scene: scene.study.occurrences(scene.checkpoint, scene.token_id)["position"].to_numpy()),
    Question("router probability, kept and dropped", ("router_values", "ties"), lambda scene: scene.study.router(scene.checkpoint).means["n"].to_numpy()),
    Question("kept above dropped", ("router_separation",), lambda scene: scene.frame("router_separation")["area"].to_numpy()),
    Question("share of position in depth", ("position_share",), lambda scene: scene.frame("position_share")["share"].to_numpy(),
        lambda scene, memory: np.array([memory.every.groupby("position")["depth"].transform("mean").var(ddof=0) / memory.every["depth"].var(ddof=0)])),
]  # fmt: skip
