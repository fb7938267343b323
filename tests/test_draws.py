"""Which tokens a policy picks: draws, ties, twins, and that company changes nothing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from db.errors import UserError
from db.schema import standard_policies
from precompute import model as models
from precompute.observe import observe
from precompute.policies import Step, available, chosen, shuffled, uniform
from tests.checkpoints import altered, make
from tests.plain_mor import Plain

IDS = np.stack([np.random.default_rng(3).permutation(67)[:37] for _ in range(6)]).astype(np.int32)


def columns_of(made, ids=IDS, batch=2, names=None, seed=5, dtype=torch.float32, given=None):
    model, _ = models.load(made.folder, dtype=dtype)
    policies = chosen(available(model.settings, given or {}), names)
    parts = [observe(model, ids[s : s + batch], policies, range(s, min(s + batch, len(ids))), seed) for s in range(0, len(ids), batch)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def names_of(made):
    return [policy.name for policy in available(models.load(made.folder)[0].settings)]


def test_every_kind_offers_its_policies_and_no_others(tmp_path):
    routed = {name for name in standard_policies(3) if "shuffled" not in name}
    assert set(names_of(make(tmp_path, kind="expert"))) == routed
    routed = {name for name in standard_policies(3) if not name.startswith(("random", "inverted"))}
    assert set(names_of(make(tmp_path, kind="token"))) == routed
    assert names_of(make(tmp_path, kind="recursive")) == names_of(make(tmp_path, kind="vanilla")) == ["router"]


@pytest.mark.parametrize("kind, options", [("expert", {"gating": "none"}), ("expert", {"router_func": None}), ("token", {"gating": None})])
def test_where_no_gate_multiplies_none_is_opened(tmp_path, kind, options):
    assert not [name for name in names_of(make(tmp_path, kind=kind, options=options)) if name.endswith("_open")]


def chi_square(counts, outcomes):
    due = sum(counts.values()) / outcomes
    return sum((count - due) ** 2 / due for count in counts.values()) + (outcomes - len(counts)) * due


def test_random_keeps_every_nested_subset_equally_often():
    """4 of 6 and then 2 of those 4: 15 x 6 = 90 outcomes; chi-square with 89 degrees of freedom stays below 135 (p = 0.001)."""
    sequences = range(9000)
    step = Step(recursion=1, candidates=torch.ones(9000, 6, dtype=torch.bool), sequences=sequences, seed=0, keep_count=4)
    outer = uniform(step)
    inner = uniform(replace(step, recursion=2, candidates=outer, keep_count=2))
    assert (outer.sum(1) == 4).all() and (inner.sum(1) == 2).all() and not (inner & ~outer).any()
    assert not torch.equal(uniform(replace(step, recursion=2)), outer)
    outcomes, counts = np.unique((outer.int() + inner.int()).numpy(), axis=0, return_counts=True)
    assert chi_square(dict(enumerate(counts)), 90) < 135
    assert len(outcomes) == 90


def test_shuffled_gives_every_arrangement_equally_often():
    """Depths 1, 1, 2, 3 have 12 arrangements; chi-square with 11 degrees of freedom stays below 31 (p = 0.001)."""
    depths = torch.tensor([[1, 1, 2, 3]]).repeat(3600, 1)
    steps = [Step(recursion=r, candidates=depths > r, sequences=range(3600), seed=0, chosen=depths) for r in range(3)]
    found = sum(shuffled(step).int() for step in steps)
    arrangements, counts = np.unique(found.numpy(), axis=0, return_counts=True)
    assert sorted(map(tuple, arrangements)) == sorted(set(itertools.permutations((1, 1, 2, 3))))
    assert chi_square(dict(enumerate(counts)), 12) < 31


@pytest.mark.parametrize("kind, drawn", [("expert", "random"), ("token", "shuffled")])
def test_a_draw_depends_on_seed_and_sequence_alone(tmp_path, kind, drawn):
    made, other = make(tmp_path / "made", kind=kind), make(tmp_path / "other", kind=kind, block=2, seed=9)
    first = columns_of(made)
    np.testing.assert_array_equal(first[f"depth_{drawn}"], first[f"depth_{drawn}_open"])
    assert (first[f"loss_{drawn}"][:, :-1] != first[f"loss_{drawn}_open"][:, :-1]).any()
    for batch in (1, 3, 6):
        np.testing.assert_array_equal(first[f"depth_{drawn}"], columns_of(made, batch=batch)[f"depth_{drawn}"])
    np.testing.assert_array_equal(first[f"depth_{drawn}"], columns_of(made, names=[drawn])[f"depth_{drawn}"])
    assert (first[f"depth_{drawn}"] != columns_of(made, seed=6)[f"depth_{drawn}"]).mean() > 0.3
    rows = first[f"depth_{drawn}"]
    assert len(np.unique(rows, axis=0)) == len(rows)
    np.testing.assert_array_equal(np.sort(rows, axis=1), np.sort(first["depth"], axis=1))
    if kind == "expert":
        np.testing.assert_array_equal(rows, columns_of(other)["depth_random"])


def test_a_sequence_keeps_its_draw_wherever_its_batch_begins(tmp_path):
    model, _ = models.load(make(tmp_path).folder)
    policies = available(model.settings)
    whole = observe(model, IDS, policies, range(6), 5)
    late = observe(model, IDS[4:], policies, range(4, 6), 5)
    np.testing.assert_array_equal(whole["depth_random"][4:], late["depth_random"])


ALONE = {
    "expert": dict(kind="expert", block=2),
    "expert tanh cycle": dict(kind="expert", sharing="cycle", options={"router_func": "tanh"}),
    "token": dict(kind="token", block=2),
    "token loss-free": dict(kind="token", options={"balancing": "loss_free"}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ALONE)
def test_a_policy_run_alone_gives_the_same_bits_as_among_all(tmp_path, name, dtype):
    made = make(tmp_path, **ALONE[name])
    given = {"given": np.random.default_rng(0).integers(1, 4, IDS.shape)}
    everything = columns_of(made, batch=3, dtype=dtype, given=given)
    names = {column.removeprefix("loss_") for column in everything if column.startswith("loss_")}
    assert len(names) > 12
    for policy in names:
        alone = columns_of(made, batch=3, names=[policy], dtype=dtype, given=given)
        assert {column for column in alone if column.startswith("loss_")} == {"loss_router", f"loss_{policy}"}
        for column, values in alone.items():
            np.testing.assert_array_equal(values, everything[column], err_msg=f"{column} beside {policy}")


def test_batches_change_losses_by_rounding_alone(tmp_path):
    for kind in ("expert", "token"):
        made = make(tmp_path / kind, kind=kind)
        alone, together = columns_of(made, batch=1), columns_of(made, batch=6)
        for column, values in alone.items():
            if column.startswith("depth"):
                np.testing.assert_array_equal(values, together[column])
            elif column.startswith("loss"):
                assert np.nanmax(np.abs(values - together[column])) < 2e-5


def test_a_router_that_says_nothing_keeps_the_first_positions(tmp_path):
    """All scores 0: 37 candidates tie for 24 places, then 24 for 12. At the first recursion nothing is dropped."""
    made = make(tmp_path / "made")
    silent = {f"model.layers.{r}.mor_router.router.weight": torch.zeros(1, 24) for r in (1, 2, 3)}
    columns = columns_of(altered(made, tmp_path / "altered", state=silent))
    first = np.repeat([3, 2, 1], [12, 12, 13])
    for policy in ("depth", "depth_inverted", "depth_router_open", "depth_router_depths_open"):
        assert (columns[policy] == first).all(), policy
    stray = np.ones(37)
    stray[0] = 3
    assert (columns["depth_depth_1"] == stray).all()
    assert [int(columns[f"ties_{r}"][0, 0]) for r in (1, 2, 3)] == [0, 37, 24]
    assert (columns["margin_2"] == 0).all() and np.isnan(columns["margin_1"]).all()
    assert (columns["probability_2"] == 0.5).all()


def tied_by_token(tmp_path, scores, **options):
    """A cycle model whose first router reads `scores` off the token itself, exactly: the embedding's first entry."""
    made = make(tmp_path / "made", sharing="cycle", recursions=2, mor={"capacity": "0.5,0.25"}, options=options)
    embedding = made.state["model.embed_tokens.weight"].clone()
    embedding[:, 0] = torch.tensor([scores[token % len(scores)] for token in range(67)])
    router = torch.zeros(1, 24)
    router[0, 0] = 1
    state = {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding, "model.layers.0.mor_router.router.weight": router}
    return altered(made, tmp_path / "altered", state=state)


def test_ties_at_the_threshold_go_to_the_lower_position_and_are_counted(tmp_path):
    """Tokens 0, 1, 2 score 1, 2, 3; of 8 positions the best 4 are kept: both 3s, then the first two of three 2s."""
    made = tied_by_token(tmp_path, [1.0, 2.0, 3.0])
    columns = columns_of(made, np.array([[1, 0, 2, 0, 1, 2, 1, 0]], dtype=np.int32))
    assert (columns["depth"][0] > 0).astype(int).tolist() == [1, 0, 1, 0, 1, 1, 0, 0]
    assert (columns["ties_1"] == 3).all()
    assert (columns["margin_1"][0, [0, 4, 6]] == 0).all()
    # The lowest four: three 1s and the first 2.
    assert (columns["depth_inverted"][0] > 0).astype(int).tolist() == [1, 1, 0, 1, 0, 0, 0, 1]


def test_equal_scores_on_one_side_of_the_threshold_are_no_ties(tmp_path):
    made = tied_by_token(tmp_path, [1.0, 2.0, 3.0])
    columns = columns_of(made, np.array([[1, 0, 2, 0, 1, 2, 0, 0]], dtype=np.int32))
    assert (columns["depth"][0] > 0).astype(int).tolist() == [1, 0, 1, 0, 1, 1, 0, 0]
    assert (columns["ties_1"] == 0).all()


@pytest.mark.parametrize("dtype, scores", [(torch.float32, (18.0, 20.0)), (torch.bfloat16, (7.0, 8.0))])
def test_sigmoids_that_collapse_to_one_tie_by_position(tmp_path, dtype, scores):
    """A higher score earns no place once both sigmoids are 1.0; above 17 in float32, and above 6.2 in bfloat16."""
    made = tied_by_token(tmp_path, [0.0, *scores])
    ids = np.array([[0, 1, 1, 2, 1, 2, 2, 0]], dtype=np.int32)
    columns = columns_of(made, ids, dtype=dtype)
    assert (columns["depth"][0] > 0).astype(int).tolist() == [0, 1, 1, 1, 1, 0, 0, 0]
    assert (columns["ties_1"] == 6).all() and (columns["probability_1"][0, 1:7] == 1).all()
    plain = Plain(made.state, made.pretrain, made.config, dtype)
    assert (plain.run(ids[0]).depth.numpy() > 0).tolist() == (columns["depth"][0] > 0).tolist()


def test_tied_columns_of_token_choice_give_the_shallower_depth(tmp_path):
    """Columns 2 and 3 equal and above column 1 for half of the tokens: those take depth 2, none takes 3."""
    made = make(tmp_path / "made", kind="token", sharing="cycle")
    router = torch.zeros(3, 24)
    router[1:, 0] = 1
    embedding = made.state["model.embed_tokens.weight"].clone()
    embedding[:, 0] = torch.tensor([1.0, -1.0]).repeat(34)[:67]
    state = {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding, "model.layers.0.mor_router.router.weight": router}
    columns = columns_of(altered(made, tmp_path / "altered", state=state))
    even = IDS % 2 == 0
    assert (columns["depth"] == np.where(even, 2, 1)).all()
    assert (columns["margin_1"][even] == 0).all() and (columns["margin_1"][~even] > 0).all()
    assert (columns["ties_1"] == even.sum(axis=1, keepdims=True)).all()


def test_depth_counts_follow_the_capacities(tmp_path):
    """int(2/3 * 37) = 24 and int(1/3 * 37) = 12 tokens go on: depths 13/12/12; assigned capacities 0.8, 0.31, 0.05: 29, 11, 1."""
    columns = columns_of(make(tmp_path / "thirds"))
    for policy in ("depth", "depth_random", "depth_inverted_open"):
        assert (np.sort(columns[policy], axis=1) == np.repeat([1, 2, 3], [13, 12, 12])).all(), policy
    columns = columns_of(make(tmp_path / "own", mor={"capacity": "0.8,0.31,0.05"}))
    assert (np.sort(columns["depth"], axis=1) == np.repeat([0, 1, 2, 3], [8, 18, 10, 1])).all()
    assert (np.sort(columns["depth_depth_2"], axis=1) == np.repeat([2, 3], [36, 1])).all()
    assert (columns["depth_depth_3"] == 3).all()


def test_a_loss_that_is_not_finite_names_its_place(tmp_path):
    made = make(tmp_path / "made", config={"tie_word_embeddings": False})
    broken = made.state["model.embed_tokens.weight"].clone()
    broken[66] = torch.inf
    model, _ = models.load(altered(made, tmp_path / "altered", state={"model.embed_tokens.weight": broken}).folder)
    ids = IDS % 66
    ids[3, 20] = 66
    with pytest.raises(UserError, match=r"The loss of router is not finite at sequence 10, position \d+: "):
        observe(model, ids, available(model.settings), range(7, 13), 0)
