"""The demo runs the shipped suite whole, and the table of its routers says what the rows say."""

import argparse
import dataclasses
from pathlib import Path

import duckdb
import numpy as np
import pytest

import db
from db.connection import CONFIGURATION
from db.errors import UserError
from precompute import alive, demo
from precompute.run import run

SEQUENCES = 12


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """The demo over its first sequences."""
    output = tmp_path_factory.mktemp("demo") / "demo.duckdb"
    return run(dataclasses.replace(demo.request(output), sequences=SEQUENCES))


@pytest.fixture(scope="module")
def study(file):
    return db.open(str(file))


def column(file: Path, checkpoint: str, name: str) -> np.ndarray:
    """A column of observations as [sequences, positions], NaN for NULL."""
    with duckdb.connect(str(file), read_only=True, config=CONFIGURATION) as con:
        rows = con.execute(f"select {name} from observations where checkpoint = ? order by sequence, position", [checkpoint]).fetchall()
    return np.array([np.nan if value is None else value for (value,) in rows]).reshape(SEQUENCES, -1)


def test_the_demo_is_large_enough_for_intervals_and_has_every_model_and_policy(file):
    request = demo.request(Path("demo.duckdb"))
    assert request.sequences >= 200 and request.sequences * (request.length - 1) >= 60_000
    assert request.policies is None  # all that a kind has
    with duckdb.connect(str(file), read_only=True, config=CONFIGURATION) as con:
        found = dict(con.execute("select checkpoint, count(*) from policies group by all").fetchall())
    assert found == {"vanilla": 1, "expert-2": 11, "expert-3": 13, "expert-4": 15, "token-3": 11}


def test_separation_is_the_share_of_pairs_in_the_right_order(file, study):
    depth = column(file, "expert-3", "depth")
    found = study.frame("router_separation", checkpoint="expert-3").set_index("recursion")
    assert found.index.tolist() == [2, 3]  # the first recursion keeps all
    for recursion, row in found.iterrows():
        probability = column(file, "expert-3", f"probability_{recursion}")
        kept = probability[depth >= recursion]
        dropped = probability[(depth < recursion) & ~np.isnan(probability)]
        above = (kept[:, None] > dropped).sum() + 0.5 * (kept[:, None] == dropped).sum()
        assert row["area"] == pytest.approx(above / (kept.size * dropped.size), abs=1e-12)
        assert (row["tokens_kept"], row["tokens_dropped"]) == (kept.size, dropped.size)


@pytest.mark.parametrize("checkpoint", ["expert-4", "token-3"])
def test_position_share_is_the_variance_of_position_means(file, study, checkpoint):
    depth = column(file, checkpoint, "depth")
    assert alive.position_share(study, checkpoint) == pytest.approx(depth.mean(axis=0).var() / depth.var())


def test_the_table_has_a_row_for_every_model(file, capsys):
    assert alive.main([str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split("|")[1].strip() for line in lines[2:]]
    assert names == ["unigram", "bigram", "vanilla", "expert-2", "expert-3", "expert-4", "token-3"]
    assert len({line.count("|") for line in lines}) == 1
    cells = {name: line.split("|") for name, line in zip(names, lines[2:])}
    router, shuffled = (column(file, "token-3", f"loss_{policy}") for policy in ("router", "shuffled"))
    assert cells["token-3"][3].strip() == f"{np.nanmean(router):.3f}"
    assert cells["token-3"][5].startswith(f" shuffled {np.nanmean(shuffled) - np.nanmean(router):+.4f} [")
    scored = column(file, "token-3", "depth")[~np.isnan(router)]
    assert cells["token-3"][7].strip() == " / ".join(f"{(scored == depth).mean():.1%}" for depth in (1, 2, 3))


def test_a_missing_file_is_named_in_one_sentence(tmp_path, capsys):
    assert alive.main([str(tmp_path / "none.duckdb")]) == 2
    assert f"error: No database at {tmp_path / 'none.duckdb'}" in capsys.readouterr().err
    assert alive.main([]) == 2
    assert "error: Name one file" in capsys.readouterr().err


def test_the_trained_models_beat_counting(file):
    for checkpoint in demo.ORDER:
        assert np.nanmean(column(file, checkpoint, "loss_router")) < 4.8  # the bigram's on the whole text


def test_a_file_of_the_users_is_not_replaced_unasked(tmp_path):
    (tmp_path / "mine.duckdb").write_bytes(b"mine")
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    with pytest.raises(UserError, match="mine.duckdb exists; add --force to replace it"):
        demo.run(parser.parse_args(["--output", str(tmp_path / "mine.duckdb")]))
    assert (tmp_path / "mine.duckdb").read_bytes() == b"mine"
