"""The written file: the authors' numbers are in it, under the contract's names, types and NULL rules."""

import hashlib
import json
import os
import subprocess
import sys

import duckdb
import numpy as np
import pytest

from precompute.command import main
from tests.conftest import GOLDEN, LENGTH, SEQUENCES, token_array

NATS = 2e-5
CHECKPOINTS = {"expert-2": "expert_rec2", "expert-3": "expert_rec3", "expert-4": "expert_rec4", "token-3": "token_rec3"}


PLACES = {**CHECKPOINTS, "vanilla": "vanilla"}
ROWS = {name: slice(3 * index, 3 * index + 3) for index, name in enumerate(PLACES)}


@pytest.fixture(scope="module")
def golden_file(tmp_path_factory):
    """Each golden checkpoint's own token ids, one after another; the fixtures' draws come in as assignments."""
    folder = tmp_path_factory.mktemp("golden")
    stored = {name: dict(np.load(GOLDEN / source / "golden.npz")) for name, source in PLACES.items()}
    np.save(folder / "ids.npy", np.concatenate([arrays["input_ids"] for arrays in stored.values()]))
    assigns = []
    for name in CHECKPOINTS:
        depths = np.ones((3 * len(PLACES), 64), np.uint8)
        depths[ROWS[name]] = stored[name]["shuffled.depth" if name == "token-3" else "random.depth"]
        np.save(folder / f"{name}.npy", depths)
        assigns.append(f"{name}:drawn={folder / f'{name}.npy'}")
    places = [f"{name}={GOLDEN / source}" for name, source in CHECKPOINTS.items()]
    assert main(["run", "--reference", str(GOLDEN / "vanilla"), "--checkpoint", *places, "--tokens", str(folder / "ids.npy"),
                 "--assign", *assigns, "--output", str(folder / "golden.duckdb")]) == 0
    return folder / "golden.duckdb"


def query(path, sql, *parameters):
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(sql, parameters).fetchall()


def column(path, checkpoint, name):
    rows = query(path, f"select {name} from observations where checkpoint = ? order by sequence, position", checkpoint)
    return np.array([np.nan if value is None else value for (value,) in rows], float).reshape(-1, 64)


@pytest.mark.parametrize(("name", "source"), CHECKPOINTS.items())
def test_the_authors_numbers_are_in_the_file(golden_file, name, source):
    with np.load(GOLDEN / source / "golden.npz") as stored:
        for policy in json.loads((GOLDEN / source / "golden.json").read_text())["policies"]:
            own = policy.replace("random", "drawn").replace("shuffled", "drawn")
            np.testing.assert_array_equal(column(golden_file, name, "depth" if policy == "router" else f"depth_{own}")[ROWS[name]], stored[f"{policy}.depth"])
            assert np.abs(column(golden_file, name, f"loss_{own}")[ROWS[name], :-1] - stored[f"{policy}.loss"]).max() < NATS, policy
        assert np.abs(column(golden_file, name, "entropy")[ROWS[name], :-1] - stored["router.entropy"]).max() < NATS


def test_the_reference_is_the_difficulty(golden_file):
    with np.load(GOLDEN / "vanilla" / "golden.npz") as stored:
        for name, array in (("vanilla_loss", "vanilla.loss"), ("vanilla_entropy", "vanilla.entropy")):
            assert np.abs(column(golden_file, "expert-3", name)[ROWS["vanilla"], :-1] - stored[array]).max() < NATS
    assert query(golden_file, "select checkpoint, is_reference, kind from checkpoints order by checkpoint")[-1] == ("vanilla", True, "vanilla")
    assert query(golden_file, "select count(*) from observations where checkpoint = 'vanilla'") == [(0,)]


def test_deciles_are_tenths_of_the_scored_positions(golden_file):
    rows = query(golden_file, "select loss_decile, count(*), min(vanilla_loss), max(vanilla_loss) from positions where next_token_id is not null group by 1 order by 1")
    assert [row[0] for row in rows] == list(range(1, 11))
    assert [row[1] for row in rows] == [95] * 5 + [94] * 5  # 945 positions
    assert all(later[2] >= earlier[3] for earlier, later in zip(rows, rows[1:]))


def test_benefit_is_shallow_minus_full_of_the_own_depth(golden_file):
    for name, last in (("expert-2", 2), ("expert-4", 4)):
        for twin in ("", "_open"):
            due = column(golden_file, name, f"loss_depth_1{twin}").astype(np.float32) - column(golden_file, name, f"loss_depth_{last}{twin}").astype(np.float32)
            np.testing.assert_array_equal(column(golden_file, name, f"benefit{twin}").astype(np.float32), due)


def test_columns_up_to_the_largest_recursion_exist_and_are_null_where_not_run(written_file):
    names = {name for (name,) in query(written_file, "select column_name from duckdb_columns() where table_name = 'observations'")}
    policies = ["random", "inverted", "shuffled", "depth_1", "depth_2", "depth_3", "depth_4", "mine"]
    assert {f"{what}_{policy}{twin}" for what in ("loss", "depth") for policy in policies for twin in ("", "_open")} <= names
    assert {"loss_router", "loss_router_open", "loss_router_depths_open", "probability_4", "margin_4"} <= names
    counts = query(written_file, """select checkpoint, count(depth), count(loss_router), count(loss_shuffled), count(loss_random), count(loss_depth_4), count(loss_mine_open)
        from observations group by checkpoint order by checkpoint""")
    everywhere, scored = SEQUENCES * LENGTH, SEQUENCES * (LENGTH - 1)
    assert counts == [
        ("expert-2", everywhere, scored, 0, scored, 0, 0),
        ("expert-3", everywhere, scored, 0, scored, 0, scored),
        ("expert-4", everywhere, scored, 0, scored, scored, 0),
        ("token-3", everywhere, scored, scored, 0, 0, 0),
        ("vanilla", 0, scored, 0, 0, 0, 0),
    ]


def test_types_are_those_of_the_contract(written_file):
    types = dict(query(written_file, "select column_name, data_type from duckdb_columns() where table_name = 'observations'"))
    assert {types[name] for name in ("sequence", "position", "token_id", "next_token_id", "document")} == {"INTEGER"}
    assert {kind for name, kind in types.items() if name.startswith("depth") or name.endswith("decile")} == {"UTINYINT"}
    assert {kind for name, kind in types.items() if name.startswith(("loss_", "probability", "margin", "benefit", "entropy")) and not name.endswith("decile")} == {"FLOAT"}


def test_random_keeps_as_many_as_the_router_and_repeats_with_its_seed(written_file):
    rows = query(written_file, "select sequence, depth, count(*) from observations where checkpoint = 'expert-3' group by all order by all")
    drawn = query(written_file, "select sequence, depth_random, count(*) from observations where checkpoint = 'expert-3' group by all order by all")
    assert rows == drawn
    assert query(written_file, "select count(*) from observations where checkpoint = 'expert-3' and depth_random <> depth_random_open") == [(0,)]
    assert query(written_file, "select policy, seed from policies where seed is not null order by all") == [
        ("random", 0), ("random", 0), ("random", 0), ("random_open", 0), ("random_open", 0), ("random_open", 0), ("shuffled", 0), ("shuffled_open", 0)]


def test_opening_the_gate_alone_keeps_the_depths(written_file):
    assert query(written_file, "select count(*) from observations where depth_router_depths_open is distinct from depth") == [(0,)]
    assert query(written_file, "select count(*) > 0 from observations where checkpoint = 'expert-3' and loss_router_depths_open <> loss_router") == [(True,)]


def test_without_a_reference_the_vanilla_columns_are_null(tmp_path, tokens_file):
    output = tmp_path / "study.duckdb"
    assert main(["run", "--checkpoint", str(GOLDEN / "expert_rec3"), "--tokens", str(tokens_file), "--policies", "random", "--output", str(output)]) == 0
    assert query(output, "select count(vanilla_loss), count(vanilla_entropy), count(loss_decile), count(entropy_decile), count(benefit) from observations") == [(0, 0, 0, 0, 0)]
    assert query(output, "select policy from policies order by policy") == [("random",), ("router",)]
    assert query(output, "select count(*) from checkpoints where is_reference") == [(0,)]


def test_text_has_documents_and_a_vocabulary(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<|endoftext|>", "the", "cat", "sat", *(f"w{index}" for index in range(207))]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["<|endoftext|>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "text.txt").write_text("the cat sat\n<|endoftext|>\nthe the\n<|endoftext|>\ncat sat the cat\n")
    output = tmp_path / "study.duckdb"
    assert main(["run", "--checkpoint", str(GOLDEN / "expert_rec2"), "--text", str(tmp_path / "text.txt"), "--tokenizer", str(tmp_path / "tokenizer.json"),
                 "--length", "5", "--sequences", "9", "--output", str(output)]) == 0
    rows = query(output, "select sequence, position, document, token_id, next_token_id from positions order by 1, 2")
    assert rows == [
        (0, 0, 0, 1, 2), (0, 1, 0, 2, 3), (0, 2, 0, 3, 0), (0, 3, 0, 0, 1), (0, 4, 1, 1, None),
        (1, 0, 1, 1, 0), (1, 1, 1, 0, 2), (1, 2, 2, 2, 3), (1, 3, 2, 3, 1), (1, 4, 2, 1, None),
    ]
    assert query(output, "from sequences order by sequence") == [(0, 5, 2), (1, 5, 1)]
    assert query(output, "select token, bytes, occurrences, is_special from vocab where token_id < 4 order by token_id") == [
        ("<|endoftext|>", b"<|endoftext|>", 2, True), ("the", b"the", 2, False), ("cat", b"cat", 2, False), ("sat", b"sat", 2, False)]
    assert query(output, "select token, next_token from tokens where sequence = 0 order by position")[:2] == [("the", "cat"), ("cat", "sat")]
    assert query(output, "select count(*) from losses where policy = 'depth_1' and loss is not null") == [(8,)]


def test_a_batch_of_another_size_changes_no_loss_by_more_than_rounding(tmp_path, tokens_file, written_file):
    output = tmp_path / "study.duckdb"
    assert main(["run", "--checkpoint", f"expert-3={GOLDEN / 'expert_rec3'}", "--tokens", str(tokens_file), "--batch-size", "1", "--output", str(output)]) == 0
    names = [name for (name,) in query(output, "select column_name from duckdb_columns() where table_name = 'observations' and column_name like 'loss!_%' escape '!' and data_type = 'FLOAT'")]
    for name in names:
        sql = f"select {name}, depth from observations where checkpoint = 'expert-3' and next_token_id is not null order by sequence, position"
        one, other = query(output, sql), query(written_file, sql)
        if one[0][0] is not None:
            assert [row[1] for row in one] == [row[1] for row in other]
            assert np.abs(np.array([row[0] for row in one]) - np.array([row[0] for row in other])).max() < NATS


def test_meta_says_how_the_file_came_about(written_file, tokens_file):
    facts = dict(query(written_file, "from meta"))
    assert facts["schema_version"] == "1" and facts["precision"] == "fp32" and facts["batch_size"] == "4" and facts["seed"] == "0"
    assert facts["tokens_sha256"] == hashlib.sha256(token_array().tobytes()).hexdigest()
    assert json.loads(facts["configuration"])["checkpoints"]["expert-3"]["policies"][0] == "router"
    assert set(json.loads(facts["seconds"])) >= {"preparing", "expert-3", "token-3"}


def test_clients_from_duckdb_1_4_on_can_read_it(written_file):
    """tests/run puts a DuckDB 1.4 beside the environment; it is another version than the one that wrote."""
    code = "import duckdb, sys; con = duckdb.connect(sys.argv[1], read_only=True); print(duckdb.__version__, con.execute('select count(*), round(sum(loss), 3) from losses').fetchone())"
    environment = {**os.environ, "PYTHONPATH": os.environ["DEPTHSCOPE_OLD_DUCKDB"]}
    done = subprocess.run([sys.executable, "-c", code, str(written_file)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    version, _, answer = done.stdout.strip().partition(" ")
    assert version.startswith("1.4.")
    assert answer == str(query(written_file, "select count(*), round(sum(loss), 3) from losses")[0])
