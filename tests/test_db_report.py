"""The report against the measures recomputed in pandas and scipy, its JSON shape, its words."""

import json
import subprocess
import sys
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import db
from db import published
from db.command import main
from db.report import report
from tests import recomputed, small_file

CONTENTS = {
    "usual": small_file.Content(),
    "unequal lengths": small_file.Content(lengths=[1, 2, 5, 20, 21, 22, 64, 40, *[30] * 8], seed=3),
    "one sequence": small_file.Content(lengths=[150], seed=4),
    "no reference": small_file.Content(reference=False, kinds={"expert-4": ("expert", 4), "token-3": ("token", 3)}, lengths=[40] * 12),
    "few policies": small_file.Content(without=("random", "depth_1", "shuffled"), lengths=[40] * 12),
    "assigned": small_file.Content(assigned=("mine",), kinds={"expert-2": ("expert", 2)}, lengths=[40] * 12),
}
LEAF = {"value", "low", "high", "n"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {name: small_file.write(folder / f"{number}.duckdb", content) for number, (name, content) in enumerate(CONTENTS.items())}


@pytest.fixture(scope="module")
def usual(files):
    return report(db.open(files["usual"])).as_json()


CASES = [(name, "true") for name in CONTENTS] + [
    ("usual", "position > 4 and token_id <> 0"),
    ("usual", "sequence % 3 = 0"),
    ("usual", "token_id in (select token_id from vocab where occurrences < 60)"),
    ("unequal lengths", "depth > 1"),
]


@pytest.mark.parametrize("name, where", CASES)
def test_every_figure_is_the_recomputed_one(files, name, where):
    path = files[name]
    study = db.open(path)
    found = report(study, where=None if where == "true" else where, in_full=False).as_json()
    for checkpoint in study.routed:
        recomputed.compare(found["checkpoints"][checkpoint], path, checkpoint, study, where)


def test_every_figure_of_a_file_by_the_real_writer_is_the_recomputed_one(written_file):
    with closing(db.open(written_file)) as study:  # other tests open it in their own way
        found = report(study, in_full=False).as_json()
        for checkpoint in study.routed:
            recomputed.compare(found["checkpoints"][checkpoint], written_file, checkpoint, study)


def test_intervals_resample_sequences_and_then_divide(files, usual):
    rows = recomputed.scored(files["usual"], "expert-3")
    found = usual["checkpoints"]["expert-3"]
    sequences = rows.groupby("sequence")
    rho = recomputed.spearman(rows, "vanilla_loss")
    added = (rows["loss_random"] - rows["loss_router"]).groupby(rows["sequence"]).sum()
    third = rows[rows["loss_decile"] == 3].groupby("sequence")["depth"].agg(["sum", "size"]).reindex(rho.index, fill_value=0)
    for leaf, numerator, denominator in (
        (found["spearman_loss"], rho, np.ones(len(rho))),
        (found["added_loss"]["random"], added, sequences.size()),
        (found["mean_depth_by_decile"][2], third["sum"], third["size"]),
    ):
        np.testing.assert_allclose([leaf["low"], leaf["high"]], recomputed.interval(numerator, denominator), atol=1e-9)


def test_the_interval_of_r2_keeps_the_fit_and_recomputes_the_held_out_mean(files, usual):
    rows = recomputed.scored(files["usual"], "expert-3")
    fitted, held = rows[rows["sequence"] % 2 == 0], rows[rows["sequence"] % 2 == 1]
    expected = held["token_id"].map(fitted.groupby("token_id")["depth"].mean()).fillna(fitted["depth"].mean())
    held = held.assign(error=(held["depth"] - expected) ** 2)
    parts = [part[["error", "depth"]].to_numpy().T for _, part in held.groupby("sequence")]
    random, found = np.random.default_rng(7), []
    for _ in range(2_000):
        error, depth = np.concatenate([parts[place] for place in random.integers(0, len(parts), len(parts))], axis=1)
        found.append(1 - error.sum() / ((depth - depth.mean()) ** 2).sum())
    leaf = usual["checkpoints"]["expert-3"]["lexical_r2"]
    np.testing.assert_allclose([leaf["low"], leaf["high"]], np.quantile(found, [0.025, 0.975]), atol=0.01)


def test_the_json_has_its_shape_to_the_letter(usual):
    assert set(usual) == {"reference", "checkpoints"}
    assert set(usual["reference"]) == {"checkpoint", "mean_loss", "mean_loss_first_500"}
    found = usual["checkpoints"]["expert-3"]
    assert set(found) == {
        "kind", "recursions", "sequences", "scored", "mean_loss", "block_share", "depth_share", "spearman_loss", "spearman_entropy",
        "partial_spearman_loss", "partial_spearman_entropy", "loss_by_depth", "mean_depth_by_decile", "depth_share_by_decile", "benefit_by_decile",
        "benefit_by_entropy_decile", "benefit_by_depth", "spearman_benefit", "lexical_r2", "modal_accuracy", "largest_depth_share", "added_loss",
        "added_loss_by_depth", "added_loss_by_decile", "gate_effect", "token_types", "deepest", "shallowest", "rules",
    }  # fmt: skip
    assert set(found["mean_loss"]["random_open"]) == LEAF == set(found["depth_share_by_decile"][9][2])
    assert set(found["spearman_loss"]) == LEAF | {"sequences"}
    assert [len(found[name]) for name in ("depth_share", "loss_by_depth", "mean_depth_by_decile", "depth_share_by_decile", "benefit_by_depth")] == [3, 3, 10, 10, 3]
    assert set(found["rules"]) == {"tracks_difficulty", "mainly_lexical", "routing_matters"}
    assert set(found["rules"]["routing_matters"]) == {"value", "threshold", "distance", "verdict", "origin"}
    assert set(found["deepest"][0]) == {"token_id", "token", "n", "mean_depth", "sd_depth", "mean_vanilla_loss"}


def test_a_vanilla_checkpoint_has_a_loss_and_no_depth(usual):
    found = usual["checkpoints"]["vanilla"]
    assert found["recursions"] is None and found["depth_share"] == [] and found["mean_loss"]["router"]["n"] == 1280
    assert found["spearman_loss"]["value"] is found["modal_accuracy"]["value"] is found["rules"]["mainly_lexical"]["verdict"] is None


def test_the_reference_is_the_mean_over_positions_that_pass_for_any_checkpoint(files, usual):
    rows = recomputed.scored(files["usual"], "expert-3")
    assert usual["reference"]["checkpoint"] == "vanilla"
    recomputed.same(usual["reference"]["mean_loss"], rows["vanilla_loss"].mean())
    filtered = report(db.open(files["usual"]), ["expert-3"], "depth = 1", in_full=False).as_json()
    recomputed.same(filtered["reference"]["mean_loss"], rows.loc[rows["depth"] == 1, "vanilla_loss"].mean())
    nothing = report(db.open(files["no reference"]), in_full=False).as_json()["reference"]
    assert nothing["checkpoint"] is nothing["mean_loss"]["value"] is None


def test_an_empty_filter_leaves_every_figure_undefined(files):
    found = report(db.open(files["usual"]), where="sequence < 0", in_full=False).as_json()["checkpoints"]["expert-3"]
    assert found["scored"] == 0 and found["deepest"] == []
    for name in ("spearman_loss", "partial_spearman_loss", "lexical_r2", "modal_accuracy", "spearman_benefit"):
        assert found[name] == {"value": None, "low": None, "high": None, "n": 0} | ({"sequences": 0} if "spearman" in name else {})


def test_token_lists_are_sorted_with_ties_by_id(files, usual):
    rows = recomputed.scored(files["usual"], "expert-3")
    expected = rows.groupby("token_id")["depth"].agg(["size", "mean"]).reset_index()
    deepest = expected.sort_values(["mean", "token_id"], ascending=[False, True]).head(10)
    shallowest = expected.sort_values(["mean", "token_id"]).head(10)
    found = usual["checkpoints"]["expert-3"]
    assert [row["token_id"] for row in found["deepest"]] == deepest["token_id"].tolist()
    assert [row["token_id"] for row in found["shallowest"]] == shallowest["token_id"].tolist()
    assert found["token_types"] == len(expected)


def test_rules_are_decided_by_their_worst_condition_and_are_pre_set_without_filter_or_moved_threshold(files):
    study = db.open(files["usual"])
    found = {rule.name: rule for rule in study.rules("expert-3")}
    tracks = found["tracks_difficulty"]
    assert [condition.threshold for condition in tracks.conditions] == [0.2, 0.1]
    assert tracks.binding.figure == "partial_spearman_loss" and tracks.verdict is False and tracks.origin == "pre-set"
    moved = {rule.name: rule for rule in study.rules("expert-3", thresholds={"spearman_loss": -1.0, "partial_spearman_loss": -1.0})}
    assert moved["tracks_difficulty"].verdict is True and moved["tracks_difficulty"].origin == "exploratory"
    assert moved["mainly_lexical"].origin == "pre-set"
    assert {rule.origin for rule in study.rules("expert-3", where="position > 3")} == {rule.origin for rule in study.rules("token-2")} == {"exploratory"}


def test_routing_matters_is_undecided_without_an_interval(files):
    rule = db.open(files["one sequence"]).rules("expert-3")[2]
    assert (rule.name, rule.verdict) == ("routing_matters", None) and rule.binding.value is not None


def test_cautions_follow_from_the_file_and_the_filter(files):
    said = db.open(files["usual"]).cautions(where="depth > 1")
    assert "Difficulty is that of vanilla (experiment_vanilla): 1,000 parameters, training tokens unknown." in said
    assert "Depth of expert-3 is a rank within its sequence, not comparable across documents, and its selection sees future tokens." in said
    assert "The filter truncates a variable that is correlated: correlations and R² are range restricted." in said
    assert not any("range restricted" in each for each in db.open(files["usual"]).cautions(where="position > 3 and token_id in (select token_id from vocab)"))
    assert "The file has no reference model: nothing here has a difficulty." in db.open(files["no reference"]).cautions()
    assert "Only 1 sequences: under 10 no interval is given." in db.open(files["one sequence"]).cautions()


def _run(*arguments):
    return subprocess.run([sys.executable, "-m", "db", *map(str, arguments)], capture_output=True, text=True)


def test_json_is_the_same_to_the_last_digit_on_any_number_of_threads(files):
    outputs = {_run("report", files["usual"], "--json", "--threads", threads).stdout for threads in (1, 2, 4)}
    assert len(outputs) == 1 and json.loads(outputs.pop())["checkpoints"]["expert-3"]["scored"] == 1280


def test_the_text_has_a_table_per_measure_with_intervals_n_origin_rules_and_warnings(files, capsys):
    assert main(["report", str(files["usual"])]) == 0
    text = capsys.readouterr().out
    for number in range(1, 11):
        assert f"\n{number}. " in text
    found = report(db.open(files["usual"]), ["expert-3"], in_full=False).as_json()["checkpoints"]["expert-3"]["spearman_loss"]
    assert f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}] n 1,280" in text
    assert "Origin: pre-set for expert-3 (added by random); otherwise exploratory." in text
    assert "Published values are not shown: none of the file's checkpoints is one that numbers were published for." in text
    assert "random halves (mean, smallest, largest)" in text and "with loss, 256 bins" in text


def test_a_filtered_report_runs_in_a_child_and_says_the_same(files):
    run = _run("report", files["usual"], "--json", "--checkpoint", "expert-3", "--where", "sequence % 3 = 0")
    direct = report(db.open(files["usual"]), ["expert-3"], "sequence % 3 = 0", in_full=False).as_json()
    assert json.loads(run.stdout) == json.loads(json.dumps(direct))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--checkpoint", "expert-9"], "error: 0.duckdb has no observations of checkpoint 'expert-9'; it has vanilla, expert-3, token-2.\n"),
        (["--where", "loudness > 1"], "error: The filter 'loudness > 1' does not run: Binder Error: Referenced column \"loudness\" not found in FROM clause!\n"),
        (["--where", "true; drop table meta"], "error: The filter 'true; drop table meta' is not one SQL condition: Parser Error: syntax error at or near \";\"\n"),
        (["--where", "length(repeat('x', 2000000000)) > 0"], "error: The filter \"length(repeat('x', 2000000000)) > 0\" does not run: The query needs more memory than it may use.\n"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(files, arguments, message):
    run = _run("report", files["usual"], *arguments)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", message)


def test_published_numbers_stand_beside_only_what_measures_the_same(tmp_path):
    kinds = {"a": ("expert", 3), "reference": ("vanilla", 0)}
    study = db.open(small_file.write(tmp_path / "real.duckdb", small_file.Content(kinds=kinds, lengths=[33] * 12, meta={"tokenizer": published.TOKENIZER})))
    names = study.checkpoints.assign(name=[published.EXPERIMENTS["vanilla"], published.EXPERIMENTS["expert-3"]])
    lines = pd.DataFrame(
        [
            {"measure": 1, "figure": "spearman_loss", "label": "with loss", "checkpoint": "a", "value": 0.227, "low": 0.2, "high": 0.25, "n": 9},
            {"measure": 2, "figure": "partial_spearman_loss", "label": "with loss", "checkpoint": "a", "value": 0.14, "low": 0.1, "high": 0.2, "n": 9},
            {"measure": 6, "figure": "lexical_r2", "label": "R²", "checkpoint": "a", "value": 0.6, "low": 0.5, "high": 0.7, "n": 9},
            {"measure": 8, "figure": "added_loss.random", "label": "added by random", "checkpoint": "a", "value": 0.05, "low": 0, "high": 1, "n": 9},
            {"measure": 8, "figure": "mean_loss.mine", "label": "mean loss", "checkpoint": "a", "value": 3.0, "low": 2, "high": 4, "n": 9},
        ]
    )
    found = published.beside(lines, names).set_index("figure")
    assert found["published"].to_dict() == {"spearman_loss": "0.217", "partial_spearman_loss": "0.13 to 0.16", "lexical_r2": "below 0.5", "added_loss.random": "0.074 to 0.124"}
    np.testing.assert_allclose(found["difference"], [0.01, 0.0, 0.1, -0.024], atol=1e-12)


def test_every_published_figure_is_one_that_the_report_prints(tmp_path):
    kinds = {"expert-2": ("expert", 2), "expert-3": ("expert", 3), "expert-4": ("expert", 4), "token-3": ("token", 3), "vanilla": ("vanilla", 0)}
    study = db.open(small_file.write(tmp_path / "five.duckdb", small_file.Content(kinds=kinds, lengths=[33] * 12)))
    from db.lines import lines

    printed = {(published.EXPERIMENTS[found.checkpoint], figure) for found in report(study, in_full=False).checkpoints for figure in lines(found)["figure"]}
    numbers = published.numbers()
    assert set(zip(numbers["name"], numbers["figure"])) <= printed
    assert numbers["source"].notna().all() and (numbers["value"].notna() | numbers["highest"].notna()).all()


@pytest.mark.parametrize(
    "meta, name, reason",
    [
        ({}, "experiment", "none of the file's checkpoints"),
        ({"dataset": "my text"}, published.EXPERIMENTS["expert-3"], "the data set is my text, not kimyuji/fineweb-test"),
        ({"dataset": f"{published.DATASET}, split train"}, published.EXPERIMENTS["expert-3"], "the tokenizer is None with 40 entries, not HuggingFaceTB/SmolLM-135M with 49,152"),
    ],
)
def test_why_published_numbers_are_not_shown_is_said_in_a_line(tmp_path, meta, name, reason):
    import duckdb

    path = small_file.write(tmp_path / "file.duckdb", small_file.Content(lengths=[33] * 10, meta=meta))
    with duckdb.connect(str(path)) as con:
        con.execute("update checkpoints set name = $1 where checkpoint = 'expert-3'", [name])
    assert published.why_not(db.open(path), None).startswith(reason)
