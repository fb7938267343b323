"""The run command: every bad input is one sentence and exit code 2, and leaves nothing behind."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from precompute.command import main
from tests.conftest import GOLDEN, LENGTH, SEQUENCES, token_array

EXPERT, TOKEN, VANILLA = GOLDEN / "expert_rec3", GOLDEN / "token_rec3", GOLDEN / "vanilla"


@pytest.fixture
def run(tmp_path, tokens_file, capsys):
    """Runs the command on the golden vanilla model unless told otherwise; gives exit code, stderr, output."""

    def call(*arguments, checkpoint=(VANILLA,), data=("--tokens", tokens_file), output=tmp_path / "out" / "study.duckdb"):
        output.parent.mkdir(exist_ok=True)
        places = ["--checkpoint", *checkpoint] if checkpoint else []
        capsys.readouterr()
        code = main([str(part) for part in ("run", *places, *data, *arguments, "--output", output)])
        return code, capsys.readouterr().err, output

    return call


@pytest.fixture
def refused(run):
    """The sentence with which a call is refused; nothing may be left beside the output."""

    def call(*arguments, **places):
        code, said, output = run(*arguments, **places)
        assert code == 2
        assert [path.name for path in output.parent.iterdir()] == []
        assert said.startswith("error: ") or "\nerror: " in said
        assert "Traceback" not in said
        return said.rsplit("error: ", 1)[1].strip()

    return call


@pytest.fixture
def altered(tmp_path):
    """A copy of a golden checkpoint with its tensors, YAML or config.json changed."""

    def make(source=EXPERT, tensors=lambda found: None, settings=lambda found: None, config=lambda found: None, name="altered"):
        folder = Path(shutil.copytree(source, tmp_path / name))
        found = load_file(folder / "model.safetensors") if (folder / "model.safetensors").exists() else torch.load(folder / "pytorch_model.bin", weights_only=True)
        tensors(found)
        (folder / "pytorch_model.bin").unlink(missing_ok=True)
        save_file({key: tensor.contiguous().clone() for key, tensor in found.items()}, folder / "model.safetensors")
        for path, change, read, write in (
            (folder / "pretrain.yaml", settings, yaml.safe_load, yaml.safe_dump),
            (folder / "config.json", config, json.loads, json.dumps),
        ):
            content = read(path.read_text())
            change(content)
            path.write_text(write(content))
        return folder

    return make


def test_the_last_line_of_stdout_is_the_file(run, capsys, tmp_path, tokens_file):
    output = tmp_path / "study.duckdb"
    assert main(["run", "--checkpoint", str(VANILLA), "--tokens", str(tokens_file), "--output", str(output)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == str(output) and output.exists()
    assert "vanilla: 100% 12/12 sequences" in printed.err and "left" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["study.duckdb"]


def test_a_missing_folder(refused, tmp_path):
    said = refused(checkpoint=[tmp_path / "none"])
    assert said == f"No checkpoint folder at {tmp_path / 'none'}. Give the folder that holds model.safetensors or pytorch_model.bin."


def test_a_folder_without_weights(refused, tmp_path):
    folder = shutil.copytree(VANILLA, tmp_path / "empty")
    (folder / "pytorch_model.bin").unlink()
    assert refused(checkpoint=[folder]) == f"{folder} holds neither model.safetensors nor pytorch_model.bin."


def test_a_folder_whose_name_and_files_say_nothing(refused, tmp_path):
    folder = shutil.copytree(EXPERT, tmp_path / "mystery")
    (folder / "pretrain.yaml").unlink()
    assert refused(checkpoint=[folder]).startswith(f"{folder} holds no YAML and its name is not a released experiment's: pass the experiment's YAML")


def test_a_missing_tensor(refused, altered):
    folder = altered(tensors=lambda found: found.pop("model.layers.2.mor_router.router.weight"))
    assert refused(checkpoint=[folder]) == f"{folder}/model.safetensors: tensor model.layers.2.mor_router.router.weight is missing."


def test_a_tensor_of_another_shape(refused, altered):
    folder = altered(tensors=lambda found: found.update({"model.norm.weight": torch.ones(47)}))
    assert refused(checkpoint=[folder]) == f"{folder}/model.safetensors: tensor model.norm.weight has shape (47,), expected (48,)."


def test_an_unexpected_tensor(refused, altered):
    folder = altered(tensors=lambda found: found.update({"model.extra": torch.ones(2)}))
    assert refused(checkpoint=[folder]) == f"{folder}/model.safetensors: unexpected tensor model.extra of shape (2,); the settings do not describe this file."


class Payload:
    def __reduce__(self):
        return (print, ("executed",))


def test_a_pickle_that_is_more_than_tensors(refused, tmp_path, capsys):
    folder = Path(shutil.copytree(VANILLA, tmp_path / "pickled"))
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Payload()}))
    said = refused(checkpoint=[folder])
    assert said == f"{folder}/pytorch_model.bin is a pickle that holds more than tensors, or is damaged; it was not loaded. Save its state dict alone."
    torch.save({"weight": torch.ones(1), "code": Payload()}, folder / "pytorch_model.bin")
    assert refused(checkpoint=[folder]) == said
    assert "executed" not in capsys.readouterr().out


def test_damaged_weights(refused, altered):
    folder = altered()
    (folder / "model.safetensors").write_bytes(b"\x10" * 100)
    assert refused(checkpoint=[folder]).startswith(f"{folder}/model.safetensors cannot be read as weights: it is cut short or damaged (")


@pytest.mark.parametrize(("change", "sentence"), [
    (lambda s: s["kv_sharing"].update(enable=True), "kv_sharing is not implemented."),
    (lambda s: s["relaxation"].update(enable=True), "relaxation is not implemented."),
    (lambda s: s["mor"].update(rand_router=True), "mor.rand_router is not implemented."),
    (lambda s: s["mor"].update(router_type="attention"), "mor.router_type 'attention' is not implemented; linear, mlp and wide_mlp are."),
    (lambda s: s["mor"].update(type="both"), "mor.type 'both' is not implemented; expert and token are."),
    (lambda s: s["mor"]["expert"].update(router_func="relu"), "mor.expert.router_func 'relu' is not implemented; sigmoid, tanh and null are."),
    (lambda s: s["recursive"].update(sharing="sequence"), "recursive.sharing 'sequence' is not implemented; middle_cycle and cycle are."),
    (lambda s: s["recursive"].update(num_recursion="x"), "recursive.num_recursion is 'x'; it should be a whole number from 1 to 255."),
    (lambda s: s["mor"].update(capacity="1,0.5"), "mor.capacity is '1,0.5'; it should be 3 shares from 0 to 1, separated by commas, none above the one before."),
    (lambda s: s["mor"].update(temp=0), "mor.temp is 0; it should be a number above 0."),
])
def test_a_setting_that_is_not_implemented_is_named(refused, altered, change, sentence):
    folder = altered(settings=change)
    assert refused(checkpoint=[folder]) == f"{folder}/pretrain.yaml: {sentence}"


def test_a_vocabulary_that_differs_names_both(refused, altered):
    def grow(found):
        found["model.embed_tokens.weight"] = torch.zeros(212, 48)
        found.pop("lm_head.weight", None)

    folder = altered(VANILLA, grow, config=lambda found: found.update(vocab_size=212), name="larger")
    assert refused("--reference", VANILLA, checkpoint=[folder]) == (
        "The vocabularies differ: vanilla has 211 entries and larger 212; models are compared token by token, so give checkpoints of one tokenizer."
    )


def test_a_tokenizer_of_another_size(refused, tokenizer_file):
    assert refused("--tokenizer", tokenizer_file(300)) .startswith(f"The tokenizer {tokenizer_file.path} has 300 entries and vanilla 211;")


def test_a_tokenizer_that_is_not_the_checkpoints_own(refused, tmp_path, tokenizer_file):
    folder = Path(shutil.copytree(VANILLA, tmp_path / "own"))
    shutil.copy(tokenizer_file(211, "other words entirely"), folder / "tokenizer.json")
    said = refused("--tokenizer", tokenizer_file(211), checkpoint=[folder])
    assert "is not the one in own's folder" in said and said.count("(") == 2


@pytest.fixture
def tokenizer_file(tmp_path):
    """tokenizer.json of a given size: bytes, merges, and filler."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    def make(size, words="the of and"):
        backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(["<|endoftext|>", *words.split()])}, unk_token="<|endoftext|>"))
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        backend.add_tokens([f"w{index}" for index in range(size - 1 - len(words.split()))])
        make.path = tmp_path / f"tokenizer-{size}-{len(words)}.json"
        backend.save(str(make.path))
        return make.path

    return make


def test_token_ids_out_of_range(refused, tmp_path):
    ids = token_array()
    ids[3, 5] = 211
    np.save(tmp_path / "ids.npy", ids)
    assert refused(data=("--tokens", tmp_path / "ids.npy")) == f"{tmp_path / 'ids.npy'}: token id 211 at sequence 3, position 5 is not in the vocabulary, whose ids are 0 to 210."


def test_text_shorter_than_one_sequence(refused, tmp_path, tokenizer_file):
    (tmp_path / "short.txt").write_text("the of and")
    said = refused("--tokenizer", tokenizer_file(211), "--length", 64, data=("--text", tmp_path / "short.txt"))
    assert said == "short.txt gives 4 tokens, less than one sequence of 64; give more text or a smaller --length."


@pytest.mark.parametrize(("name", "depths", "sentence"), [
    ("mine", np.ones((SEQUENCES, LENGTH - 1), int), f"The assignment expert_rec3:mine has shape ({SEQUENCES}, {LENGTH - 1}); the tokens have ({SEQUENCES}, {LENGTH})."),
    ("mine", np.full((SEQUENCES, LENGTH), 4), "The assignment expert_rec3:mine gives depth 4 at sequence 0, position 0; depths of expert_rec3 are 1 to 3."),
    ("mine", np.zeros((SEQUENCES, LENGTH), int), "The assignment expert_rec3:mine gives depth 0 at sequence 0, position 0; depths of expert_rec3 are 1 to 3."),
    ("mine", np.ones((SEQUENCES, LENGTH)), "holds float64, expected integers."),
    ("Mine", np.ones((SEQUENCES, LENGTH), int), "Policy name 'Mine' cannot be used: it should be a lower-case letter and up to 30 letters, digits or _, and not end in _open."),
    ("mine_open", np.ones((SEQUENCES, LENGTH), int), "Policy name 'mine_open' cannot be used"),
    ("depth_9", np.ones((SEQUENCES, LENGTH), int), "Policy name 'depth_9' is a standard one; choose another with --assign."),
    ("random", np.ones((SEQUENCES, LENGTH), int), "Policy name 'random' is a standard one; choose another with --assign."),
])
def test_an_assignment_that_cannot_be_used(refused, tmp_path, name, depths, sentence):
    np.save(tmp_path / "depths.npy", depths)
    assert sentence in refused("--assign", f"expert_rec3:{name}={tmp_path / 'depths.npy'}", checkpoint=[EXPERT])


def test_an_assignment_for_nobody_or_of_no_form(refused, tmp_path):
    np.save(tmp_path / "depths.npy", np.ones((SEQUENCES, LENGTH), int))
    assert refused("--assign", f"other:mine={tmp_path / 'depths.npy'}", checkpoint=[EXPERT]) == "--assign names the checkpoint other, which is not given; the checkpoints are expert_rec3."
    assert refused("--assign", "mine", checkpoint=[EXPERT]) == "--assign 'mine' is not of the form ID:NAME=FILE.npy."
    assert refused("--assign", f"vanilla:mine={tmp_path / 'depths.npy'}").startswith("--assign gives depths to vanilla, a vanilla model;")


def test_a_length_beyond_the_models(refused, tmp_path):
    np.save(tmp_path / "long.npy", token_array(2, 65))
    assert refused(data=("--tokens", tmp_path / "long.npy")) == "A length of 65 is beyond what vanilla can read (64 positions); lower --length."


def test_no_disk_space(refused, tmp_path):
    """A sparse array of 4 billion tokens needs more disk than there is."""
    path = tmp_path / "huge.npy"
    ids = np.lib.format.open_memmap(path, "w+", np.int32, (2**26, 64))
    del ids
    code = subprocess.run(["truncate", "-s", str(path.stat().st_size), path]).returncode
    assert code == 0
    with_huge = refused(data=("--tokens", path))
    assert " GB free and this run may need " in with_huge and with_huge.endswith("free space, or lower --sequences or --policies.")


def test_an_output_that_exists(run, tmp_path):
    code, said, output = run()
    assert code == 0
    before = output.read_bytes()
    code, said, _ = run()
    assert (code, said) == (2, f"error: The output {output} exists; add --force to replace it, or name another.\n")
    assert output.read_bytes() == before
    code, said, _ = run("--force", "--seed", 7)
    assert code == 0 and output.read_bytes() != before


def test_an_output_that_cannot_be(tmp_path, run):
    (tmp_path / "out" / "study.duckdb").mkdir(parents=True)
    code, said, output = run()
    assert (code, said) == (2, f"error: The output {output} is a folder; name a .duckdb file in it.\n")
    assert main(["run", "--checkpoint", str(VANILLA), "--tokens", "x.npy", "--output", str(tmp_path / "no" / "study.duckdb")]) == 2


def test_cuda_asked_for_and_absent(refused):
    absent = "CUDA was asked for and is not available here; use --device cpu, or install torch for your GPU."
    too_many = f"There is no GPU 99; this machine has {torch.cuda.device_count()}."
    assert refused("--device", "cuda:99") == (too_many if torch.cuda.is_available() else absent)
    assert refused("--device", "abacus") == "The device 'abacus' is unknown; try cpu, cuda or cuda:1."


def test_out_of_memory_names_a_batch_size(tmp_path):
    """A real allocation failure: 1,024 sequences at once under an address-space limit."""
    np.save(tmp_path / "ids.npy", token_array(1024, 64))
    code = f"""
import resource, sys
from precompute.command import main
import precompute.run, transformers, datasets, duckdb
from precompute import model
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 150_000_000, resource.RLIM_INFINITY))
sys.exit(main(['run', '--checkpoint', {str(EXPERT)!r}, '--tokens', {str(tmp_path / 'ids.npy')!r}, '--batch-size', '1024', '--output', {str(tmp_path / 'out.duckdb')!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=GOLDEN.parent.parent)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "error: Out of memory with a batch of 1024 sequences; try --batch-size 512."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids.npy"]


def test_a_full_disk_keeps_what_was_finished(tmp_path, tokens_file):
    """A limit on the size of files stands for a full disk: shards fit, the database does not."""
    arguments = ["run", "--checkpoint", str(EXPERT), "--tokens", str(tokens_file), "--output", str(tmp_path / "out.duckdb")]
    code = f"""
import resource, signal, sys
from precompute.command import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
sys.exit(main({arguments!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=GOLDEN.parent.parent)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines()[-1] == (
        f"error: The disk of {tmp_path} is full. What was finished stays in {tmp_path / 'out.duckdb.work'}; the same command continues. Free some space first."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["out.duckdb.work"]
    assert main(arguments) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.duckdb"]


def test_a_loss_that_is_not_finite_is_placed(refused, altered):
    folder = altered(VANILLA, lambda found: found["model.embed_tokens.weight"].__setitem__(0, float("nan")) or found.pop("lm_head.weight", None))
    said = refused(checkpoint=[folder])
    assert said.startswith("The loss of router is not finite at sequence 0, position ") and said.endswith("Try --precision fp32, or check the checkpoint.")


def test_a_policy_nobody_has(refused):
    assert refused("--policies", "sideways", checkpoint=[EXPERT]) == "No checkpoint of this run has a policy 'sideways'; see --help for the policies of each kind."


def test_two_checkpoints_of_one_name(refused):
    assert refused(checkpoint=[f"x={EXPERT}", f"x={TOKEN}"]) == "Two checkpoints are called x; tell them apart with --checkpoint ID=DIR."


def test_policies_that_a_kind_lacks_are_skipped_aloud(run):
    code, said, output = run("--policies", "random", "shuffled", checkpoint=[EXPERT, TOKEN])
    assert code == 0
    assert "expert_rec3: it has no policy shuffled; skipped." in said and "token_rec3: it has no policy random; skipped." in said
