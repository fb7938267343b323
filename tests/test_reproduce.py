"""The study in one command, offline: random weights under the released names in small shapes, a small data set on disk."""

import json

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import db
from db.published import EXPERIMENTS
from precompute.bench import TINY, write_random
from precompute.command import main
from precompute.settings import SMOLLM_360M

VOCABULARY, LENGTH, SEQUENCES = TINY["vocab_size"], 48, 12
SHAPES = SMOLLM_360M | TINY


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A folder with the five released checkpoints."""
    folder = tmp_path_factory.mktemp("released")
    for experiment in EXPERIMENTS.values():
        write_random(folder / experiment, SHAPES)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Options for a data set and a tokenizer on disk."""
    folder = tmp_path_factory.mktemp("data")
    words = [f"w{index}" for index in range(1, VOCABULARY)]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(["<|endoftext|>", *words])}, "<|endoftext|>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.save(str(folder / "tokenizer.json"))
    draw = np.random.default_rng(0)
    lines = [json.dumps({"text": " ".join(draw.choice(words, 30))}) for _ in range(30)]
    (folder / "held-out").mkdir()
    (folder / "held-out" / "test.jsonl").write_text("\n".join(lines))
    return ["--dataset", str(folder / "held-out"), "--tokenizer", str(folder / "tokenizer.json"), "--length", str(LENGTH), "--sequences", str(SEQUENCES)]


@pytest.fixture
def reproduce(data, tmp_path, capsys):
    """Exit code, stdout, stderr and output of the command on a folder of checkpoints."""

    def call(folder):
        output = tmp_path / "study.duckdb"
        code = main(["reproduce", "--checkpoints", str(folder), "--output", str(output), *data])
        printed = capsys.readouterr()
        return code, printed.out, printed.err, output

    return call


def linked(tmp_path, released, names, inside="."):
    """A folder with some of the checkpoints in it."""
    place = tmp_path / "some" / inside
    place.mkdir(parents=True)
    for name in names:
        (place / EXPERIMENTS[name]).symlink_to(released / EXPERIMENTS[name])
    return tmp_path / "some"


def test_the_five_released_checkpoints_become_a_file_and_a_report(reproduce, released):
    code, out, err, output = reproduce(released)
    assert code == 0 and "Missing" not in out + err
    assert out.splitlines()[-1] == str(output)
    for part in ("reference vanilla: mean loss ", "8. ", "expert-4", "token-3", "Published values are not shown: the data set is "):
        assert part in out
    study = db.open(str(output))
    found = {row.checkpoint: (row.name, row.kind, row.layers_per_recursion) for row in study.checkpoints.itertuples(index=False)}
    due = {"vanilla": ("vanilla", None), "expert-2": ("expert", 3), "expert-3": ("expert", 2), "expert-4": ("expert", 1), "token-3": ("token", 2)}
    assert {name: (kind, None if pd.isna(layers) else layers) for name, (_, kind, layers) in found.items()} == due
    assert {name: facts[0] for name, facts in found.items()} == EXPERIMENTS
    assert study.reference == "vanilla"
    assert study.policies.groupby("checkpoint").size().to_dict() == {"vanilla": 1, "expert-2": 11, "expert-3": 13, "expert-4": 15, "token-3": 11}


def test_what_is_missing_is_said_first_and_last(reproduce, released, tmp_path):
    """Folders that gdown put one deeper are found; without the vanilla model nothing is a reference."""
    folder = linked(tmp_path, released, ["expert-3"], inside="MoR")
    code, out, err, output = reproduce(folder)
    names = "; ".join(f"{name} ({EXPERIMENTS[name]})" for name in ("vanilla", "expert-2", "expert-4", "token-3"))
    absent = f"Missing under {folder}: {names}. gdown --folder 1pYKJOu2aBGC-jgoWbfP6T_vqEYtUVxa4 fetches them."
    assert code == 0 and out.splitlines()[-2:] == [absent, str(output)] and err.startswith(absent)
    assert "no reference model" in out


def test_without_any_released_checkpoint_nothing_is_begun(reproduce, tmp_path):
    (tmp_path / "other").mkdir()
    code, out, err, output = reproduce(tmp_path / "other")
    assert code == 2 and out == "" and err.startswith(f"error: Missing under {tmp_path / 'other'}: vanilla (")
    code, out, err, output = reproduce(tmp_path / "none")
    assert (code, err) == (2, f"error: No folder at {tmp_path / 'none'}; give the one that holds the checkpoints' folders.\n")
    assert not output.exists()
