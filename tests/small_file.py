"""Writes a small file by the rules of the schema, with made-up numbers: for tests of what reads it."""

from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from db import aggregates, schema

VOCABULARY = 40


@dataclass
class Content:
    """What goes into the file; the defaults make 40 sequences under a vanilla, an expert and a token-choice model."""

    lengths: list[int] = field(default_factory=lambda: [33] * 40)
    kinds: dict[str, tuple[str, int]] = field(default_factory=lambda: {"expert-3": ("expert", 3), "token-2": ("token", 2), "vanilla": ("vanilla", 0)})
    without: tuple[str, ...] = ()  # policies that no checkpoint ran
    reference: bool = True
    tokenizer: bool = True
    assigned: tuple[str, ...] = ()
    seed: int = 0
    meta: dict[str, str] = field(default_factory=dict)

    @property
    def recursions(self) -> int:
        return max(recursions for _, recursions in self.kinds.values())


def write(path: Path, content: Content | None = None) -> Path:
    """Write the file and return its path."""
    content = content or Content()
    random = np.random.default_rng(content.seed)
    with duckdb.connect(str(path)) as con:
        schema.create(con, content.recursions, content.assigned)
        facts = {"schema_version": str(schema.SCHEMA_VERSION), "dataset": "made up", "seed": str(content.seed), **content.meta}
        con.executemany("insert into meta values ($1, $2)", list(facts.items()))
        _write_checkpoints(con, content)
        positions = _positions(random, content)
        con.append("positions", positions, by_name=True)
        _write_texts(con, content, positions)
        for checkpoint, (kind, recursions) in content.kinds.items():
            rows = _observations(random, content, positions, kind, recursions)
            con.append("observations", rows.assign(checkpoint=checkpoint), by_name=True)
            aggregates.fill(con, checkpoint, {r: np.zeros(len(content.lengths), int) for r in range(1, recursions + 1)} if kind == "expert" else None)
    return path


def _write_checkpoints(con, content):
    reference = {"reference": ("vanilla", 0)} if content.reference and "vanilla" not in content.kinds else {}
    for checkpoint, (kind, recursions) in {**reference, **content.kinds}.items():
        con.execute(
            "insert into checkpoints values ($1, $2, $3, $4, 2, $5, true, 1000, null, 'abc', '{}')",
            [checkpoint, f"experiment_{checkpoint}", kind, recursions or None, content.reference and kind == "vanilla"],
        )
    for checkpoint, (kind, recursions) in content.kinds.items():
        for policy in _policies(content, kind, recursions):
            gate = "open" if policy.endswith("_open") else "router"
            con.execute("insert into policies values ($1, $2, $3, 'made up', 1)", [checkpoint, policy, gate])


def _policies(content, kind, recursions):
    if kind == "vanilla":
        return ["router"]
    missing = {"expert": ("shuffled",), "token": ("random", "inverted")}[kind] + content.without
    names = schema.policy_names(recursions, content.assigned)
    return [name for name in names if name.removesuffix("_open") not in missing]


def _positions(random, content):
    sequence = np.repeat(np.arange(len(content.lengths)), content.lengths)
    position = np.concatenate([np.arange(length) for length in content.lengths])
    token = np.minimum(random.zipf(1.4, len(sequence)) - 1, VOCABULARY - 1)
    last = np.r_[sequence[1:] != sequence[:-1], True]
    frame = pd.DataFrame({"sequence": sequence, "position": position, "token_id": token})
    frame["document"] = np.cumsum(np.r_[0, (token == 0)[:-1]])
    frame["next_token_id"] = pd.Series(np.roll(token, -1), dtype="Int32").mask(last)
    ease = random.normal(size=VOCABULARY)[token] + random.normal(size=len(content.lengths))[sequence] / 2
    for name, decile in (("vanilla_loss", "loss_decile"), ("vanilla_entropy", "entropy_decile")):
        values = np.exp(ease / 2 + random.normal(size=len(token)) / 2).astype(np.float32).round(2)
        frame[name] = pd.Series(values, dtype="Float32").mask(last) if content.reference else pd.Series(pd.NA, index=frame.index, dtype="Float32")
        frame[decile] = _deciles(frame, name)
    return frame


def _write_texts(con, content, positions):
    scored = positions.loc[positions["next_token_id"].notna(), "token_id"]
    vocab = pd.DataFrame({"token_id": np.arange(VOCABULARY)})
    vocab["occurrences"] = np.bincount(scored, minlength=VOCABULARY)
    vocab["is_special"] = vocab["token_id"] == 0
    if content.tokenizer:
        vocab["token"] = ["<|endoftext|>", " the", "\n", "⟨E2 80⟩"] + [f" w{number}" for number in range(4, VOCABULARY)]
        vocab["bytes"] = vocab["token"].str.encode("utf-8")
    con.append("vocab", vocab, by_name=True)
    begins = positions["document"] != positions["document"].shift()
    sequences = pd.DataFrame({"sequence": np.arange(len(content.lengths)), "tokens": content.lengths})
    sequences["documents"] = begins.groupby(positions["sequence"]).sum()
    con.append("sequences", sequences, by_name=True)


def _deciles(frame, name):
    """ntile(10) over the scored positions by value, sequence, position."""
    scored = frame[frame[name].notna()].sort_values([name, "sequence", "position"])
    size, larger = divmod(len(scored), 10)
    tiles = np.repeat(np.arange(1, 11), [size + (tile < larger) for tile in range(10)])
    return pd.Series(tiles, index=scored.index, dtype="UInt8").reindex(frame.index)


def _observations(random, content, positions, kind, recursions):
    rows = positions.copy()
    last = rows["next_token_id"].isna()
    base = random.gamma(2, 1, len(rows))

    def nats(values):
        return pd.Series(values.astype(np.float32), dtype="Float32").mask(last)

    rows["entropy"] = nats(base + random.random(len(rows)))
    for policy in _policies(content, kind, recursions):
        rows[f"loss_{policy}"] = nats(base + random.normal(0.05, 0.3, len(rows)).clip(-0.5))
        if kind != "vanilla":
            rows["depth" if policy == "router" else f"depth_{policy}"] = _depths(random, rows, policy, recursions).astype(np.uint8)
    for name, suffix in (("benefit", ""), ("benefit_open", "_open")):
        deep = f"loss_depth_{recursions}{suffix}"
        if f"loss_depth_1{suffix}" in rows and deep in rows:
            rows[name] = rows[f"loss_depth_1{suffix}"] - rows[deep]
    for recursion in range(1, recursions + 1):
        rows[f"probability_{recursion}"] = pd.Series(random.random(len(rows)), dtype="Float32").mask((kind == "expert") & (rows["depth"] < recursion))
    return rows


def _depths(random, rows, policy, recursions):
    own = policy.removesuffix("_open")
    if own.startswith("depth_"):
        return np.full(len(rows), int(own.removeprefix("depth_")))
    score = rows["token_id"].to_numpy() % 7 + random.normal(0, 2, len(rows))
    rank = pd.Series(score).groupby(rows["sequence"].to_numpy()).rank(pct=True).to_numpy()
    return np.ceil(rank * recursions).astype(int)
