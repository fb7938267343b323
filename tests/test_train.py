"""Training the tiny suite: nothing held out is trained on, the losses are the stated ones, a killed run continues."""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from db.errors import UserError
from precompute import baselines, corpus, losses, passes, policies, tokenizer, train
from precompute.documents import documents_in_files
from precompute.model import load
from precompute.passes import Trace
from precompute.recipe import BATCH, EXPERIMENTS, LENGTH, VOCABULARY

ROOT = Path(__file__).parent.parent
STEP = BATCH * LENGTH


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in another order, as with another number of threads, would change last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def words(start: int, count: int) -> str:
    return " ".join(f"word{i}" for i in range(start, start + count))


def rows(count: int = 2 * BATCH) -> np.ndarray:
    return np.random.default_rng(3).integers(0, VOCABULARY, (count, LENGTH), dtype=np.int32)


def fresh(model_id: str, folder: Path, steps: int = 1):
    train.write_plan(model_id, steps * STEP, folder)
    return train.new_model(folder, seed=0)


# The text


def test_documents_that_share_a_title_or_a_run_of_words_are_never_held_out():
    shared = words(0, corpus.RUN)
    documents = [
        f"Alpha\n\n{words(1000, 40)}",
        f"ALPHA\n\n{words(2000, 40)}",
        f"Beta\n\n{words(3000, 20)} {shared}",
        f"Gamma\n\n{shared} {words(4000, 20)}",
        *(f"Title {i}\n\n{words(10_000 + 100 * i, 40)}" for i in range(120)),
    ]
    split = corpus.split(documents, held_out_characters=4000, seed=0)
    assert set(documents[:4]) <= set(split.training)
    assert sorted(split.training + split.held_out) == sorted(documents)
    assert 4000 <= sum(map(len, split.held_out)) < 4000 + max(map(len, documents))


def test_the_split_depends_on_the_seed_alone():
    documents = [f"Title {i}\n\n{words(100 * i, 40)}" for i in range(120)]
    assert corpus.split(documents, 4000, 1) == corpus.split(documents, 4000, 1)
    assert corpus.split(documents, 4000, 1) != corpus.split(documents, 4000, 2)


def test_documents_survive_the_file(tmp_path):
    documents = ["One\n\ntext <|endoftext|> within a line", "Zwei\n\nGrüße, 你好"]
    corpus.write(tmp_path / "text.xz", documents)
    assert list(documents_in_files([tmp_path / "text.xz"])) == documents


def test_the_tokenizer_keeps_every_byte_and_ends_text_with_id_0(tmp_path):
    made = corpus.train_tokenizer(["a few words of text " * 9], size=300)
    assert made.token_to_id("<|endoftext|>") == 0
    text = "Grüße\n\n你好 \U0001f600 a few words"
    assert made.decode(made.encode(text).ids) == text
    made.save(str(tmp_path / "tokenizer.json"))
    packed = corpus.rows(["a", "b", "c"], tmp_path / "tokenizer.json", length=2)
    a, b, c = (made.encode(letter).ids[0] for letter in "abc")
    assert packed.tolist() == [[a, 0], [b, 0], [c, 0]]


def test_the_shipped_text_is_enough_for_the_demo_and_has_each_title_once():
    suite = ROOT / "precompute" / "suite"
    documents = list(documents_in_files([suite / "held-out.txt.xz"]))
    titles = [document.partition("\n")[0].casefold() for document in documents]
    assert len(set(titles)) == len(titles)
    packed = corpus.rows(documents, suite / "tokenizer.json", LENGTH)
    assert len(packed) >= 200 and packed[:, 1:].size >= 60_000
    assert packed[:, 1:].size == json.loads((suite / "baselines.json").read_text())["predictions"]
    assert tokenizer.load(str(suite / "tokenizer.json")).size == VOCABULARY


def test_baselines_by_hand():
    training = np.array([[0, 1, 0, 1], [0, 2, 2, 2]])
    held_out = np.array([[0, 1], [1, 2]])
    found = baselines.measure(training, held_out, vocabulary=3)
    p = np.array([4, 3, 4]) / 11  # three, two and three occurrences, and one more of each
    assert found.unigram == pytest.approx(-(np.log(p[1]) + np.log(p[2])) / 2)
    # 0 is followed by 1 twice in three times; 1 is followed once, never by 2.
    bigram = {s: -(np.log((2 + s * p[1]) / (3 + s)) + np.log((0 + s * p[2]) / (1 + s))) / 2 for s in baselines.STRENGTHS}
    assert found.bigram == pytest.approx(min(bigram.values()))
    assert bigram[found.strength] == pytest.approx(found.bigram)
    assert found.predictions == 2


# The losses


def test_cross_entropy_has_the_value_and_gradients_of_torch():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(losses.HEAD_ROWS + 5, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 11, (len(hidden),), generator=generator)
    expected = torch.autograd.grad(3 * F.cross_entropy(hidden @ weight.T, targets), (hidden, weight))
    loss = losses.CrossEntropy.apply(hidden, weight, targets)
    found = torch.autograd.grad(3 * loss, (hidden, weight))
    torch.testing.assert_close(loss, F.cross_entropy(hidden @ weight.T, targets))
    torch.testing.assert_close(found, expected)


def test_the_selection_loss_is_a_mean_over_candidates_summed_over_recursions():
    yes, no = torch.tensor(True), torch.tensor(False)
    trace = Trace(
        logits=[torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 9.0]])],
        candidates=[torch.stack([yes, yes])[None], torch.stack([yes, no])[None]],
        kept=[torch.stack([yes, no])[None], torch.stack([yes, no])[None]],
    )
    assert losses.selection_loss(trace).item() == pytest.approx(np.log(2) + np.log1p(np.exp(-2.0)))


def test_the_balance_loss_is_one_where_depths_are_even_and_r_where_all_go_one_way():
    even = torch.eye(3)[None]
    assert losses.balance_loss(even).item() == pytest.approx(1.0)
    assert losses.balance_loss(torch.tensor([[[1.0, 0.0, 0.0]] * 4])).item() == pytest.approx(3.0)


@pytest.mark.parametrize("model_id", ["expert-3", "token-3"])
def test_the_language_loss_reaches_the_router_through_the_gate(model_id, tmp_path):
    model = fresh(model_id, tmp_path)
    router = policies.available(model.settings)[0]
    ids = torch.from_numpy(rows(2)).long()
    hidden = next(passes.run(model, ids, [router], range(2), 0, Trace())).hidden
    losses.CrossEntropy.apply(hidden[:, :-1].flatten(0, 1), model.lm_head.weight, ids[:, 1:].flatten()).backward()
    slopes = [p.grad.abs().max().item() for name, p in model.named_parameters() if "mor_router" in name]
    assert slopes and min(slopes) > 0


# The schedule and the files


def test_the_learning_rate_warms_up_stays_and_falls_over_the_last_fifth():
    plan = EXPERIMENTS["vanilla"].yaml(100 * STEP)
    rates = [train.rate(plan, step) for step in range(100)]
    assert rates[0] == pytest.approx(3e-3 / 5) and rates[4] == rates[80] == 3e-3
    assert rates[90] == pytest.approx(1.5e-3) and rates[99] == pytest.approx(3e-3 / 20)


@pytest.mark.parametrize("model_id", ["expert-4", "token-3"])
def test_shared_weights_are_one_parameter_and_stored_once(model_id, tmp_path):
    model = fresh(model_id, tmp_path)
    names = dict(model.named_parameters())
    layers = 2 * 9 + 9 + 2 + sum("mor_router" in name for name in names)
    assert len(names) == layers  # first, last and one shared layer, embedding, final norm, routers
    train.save(model, tmp_path / "model.safetensors")
    stored = load_file(tmp_path / "model.safetensors")
    assert stored.keys() == names.keys()
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    again, checkpoint = load(tmp_path)
    assert checkpoint.attention_shared and checkpoint.name == EXPERIMENTS[model_id].name
    assert len(again.blocks()) == again.settings.recursions and again.layers_per_recursion == 1
    for name, parameter in again.named_parameters():
        torch.testing.assert_close(parameter, names[name].detach(), atol=1e-4, rtol=1e-3)


def test_a_killed_training_continues_to_the_same_weights(tmp_path):
    data, steps = rows(), 4
    train.train("expert-2", data, steps * STEP, 0, tmp_path / "whole", save_every=2)
    code = (
        "import sys; from pathlib import Path; import torch; torch.set_num_threads(1); "
        "from precompute import train; from tests.test_train import rows, STEP; "
        f"train.train('expert-2', rows(), {steps} * STEP, 0, Path(sys.argv[1]), save_every=2)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "killed")], cwd=ROOT, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed" / train.STATE).exists():
        assert child.poll() is None, "the training ended before its first save"
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    train.train("expert-2", data, steps * STEP, 0, tmp_path / "killed", save_every=2)
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert first == second
    assert not (tmp_path / "killed" / train.STATE).exists()


def test_training_lowers_the_loss_of_every_kind(tmp_path):
    data = np.tile(np.arange(LENGTH, dtype=np.int32) % 7, (BATCH, 1))
    for model_id in ("vanilla", "expert-3", "token-3"):
        train.train(model_id, data, 5 * STEP, 0, tmp_path / model_id)
        assert train.held_out_loss(tmp_path / model_id, data[:1]) < np.log(VOCABULARY) - 1
        assert load(tmp_path / model_id)[1].settings.training_tokens == 5 * STEP


# What the user may get wrong


def run(tmp_path: Path, *options: str) -> Path:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return train.run(parser.parse_args(["--output", str(tmp_path / "suite"), *options]))


def test_a_missing_corpus_is_named(tmp_path):
    with pytest.raises(UserError, match="Text .*nowhere.xz cannot be read"):
        run(tmp_path, "--corpus", str(tmp_path / "nowhere.xz"))
    assert not (tmp_path / "suite").exists()


def test_a_corpus_that_is_too_short_says_what_is_needed(tmp_path):
    (tmp_path / "text").write_text("Title\n\nshort\n<|endoftext|>\n")
    with pytest.raises(UserError, match="holds 12 characters; the suite needs at least 2,400,000"):
        run(tmp_path, "--corpus", str(tmp_path / "text"))


def test_a_corpus_of_repetitions_cannot_be_held_out():
    with pytest.raises(UserError, match="too much of it is repeated or stands in long documents"):
        corpus.split([f"Title {i}\n\n{words(0, 40)}" for i in range(200)], 4000, 0)


def test_too_few_tokens_for_one_step_are_refused(tmp_path):
    with pytest.raises(UserError, match="--tokens is 4095; one step takes 4096"):
        run(tmp_path, "--corpus", str(tmp_path / "text"), "--tokens", "4095")


def test_a_training_begun_otherwise_is_not_continued(tmp_path):
    model = fresh("vanilla", tmp_path)
    train.save_state(tmp_path / train.STATE, {"seed": 1, "step": 1}, model, train.new_optimizer(model, EXPERIMENTS["vanilla"].yaml(STEP)))
    with pytest.raises(UserError, match="was begun with other settings; delete it"):
        train.train("vanilla", rows(), STEP, 0, tmp_path)
