"""Files for the pages, written by the real command from the golden checkpoints over text of our own."""

from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from precompute.command import main
from tests import small_file
from tests.checkpoints import make

GOLDEN = Path(__file__).parents[1] / "golden"
VOCABULARY = 211  # of the golden checkpoints
MARKUP = ["<script>document.body.remove()</script>", "<img/src=x/onerror=document.body.remove()>", "<b>bold</b>", "&amp;", "[link](http://localhost)"]
WORDS = [f" w{number}" for number in range(VOCABULARY - len(MARKUP) - 4)]
TOKENS = ["<|endoftext|>", "\n", "\t", "\N{WHITE SQUARE}", *MARKUP, *WORDS]
LENGTH, SEQUENCES = 48, 32
CHECKPOINTS = {"expert-2": "expert_rec2", "expert-3": "expert_rec3", "expert-4": "expert_rec4", "token-3": "token_rec3"}

OTHERS = {
    "one sequence": {"lengths": [33]},
    "fewer policies": {"without": ("random", "inverted", "depth_1")},
    "ids without text": {"tokenizer": False},
    "no reference": {"reference": False, "kinds": {"expert-3": ("expert", 3)}},
    "twenty checkpoints": {"kinds": {f"expert-{number}": ("expert", 2) for number in range(20)}, "lengths": [20] * 3},
    "an assigned policy": {"kinds": {"token-2": ("token", 2)}, "assigned": ("mine",)},
}  # contents of small files that a page must live with


def study(folder: Path) -> Path:
    """Four routed checkpoints and their vanilla reference, over 32 sequences of text with markup in it."""
    return run(folder / "study.duckdb", "--reference", f"vanilla={GOLDEN / 'vanilla'}", "--checkpoint", *checkpoints(*CHECKPOINTS), *text(folder))


def alone(folder: Path) -> Path:
    """expert-3 without a reference, over the same text: no vanilla losses."""
    return run(folder / "alone.duckdb", "--checkpoint", *checkpoints("expert-3"), *text(folder))


def vanilla(folder: Path) -> Path:
    """A vanilla model and no router."""
    place = f"vanilla={GOLDEN / 'vanilla'}"
    return run(folder / "vanilla.duckdb", "--reference", place, "--checkpoint", place, *text(folder))


def long(folder: Path) -> Path:
    """A random expert-3 over sequences of 2,048 token ids, without a tokenizer."""
    config = {"max_position_embeddings": 2048}
    made = make(folder / "expert", recursions=3, config=config)
    reference = make(folder / "reference", kind="vanilla", config=config)
    ids = np.random.default_rng(0).integers(0, made.config["vocab_size"], (3, 2048), dtype=np.int32)
    np.save(folder / "ids.npy", ids)
    arguments = ["--reference", str(reference.folder), "--checkpoint", f"expert-3={made.folder}", "--tokens", str(folder / "ids.npy")]
    return run(folder / "long.duckdb", *arguments)


def other(folder: Path, name: str) -> Path:
    """A small file of made-up numbers, one of OTHERS."""
    return small_file.write(folder / "other.duckdb", small_file.Content(**OTHERS[name]))


def run(output: Path, *arguments: str) -> Path:
    assert main(["run", *arguments, "--output", str(output)]) == 0
    return output


def checkpoints(*ids: str) -> list[str]:
    return [f"{id}={GOLDEN / CHECKPOINTS[id]}" for id in ids]


def text(folder: Path) -> list[str]:
    """The options for a text whose first document holds every token of MARKUP, and its word tokenizer."""
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    documents = ["".join([" w0", *MARKUP, "\t", "\n", " w1", " w2"])]
    documents += ["".join(random.choice(WORDS, random.integers(20, 60), p=weights / weights.sum())) for _ in range(60)]
    (folder / "text.txt").write_text("\n<|endoftext|>\n".join(documents), encoding="utf-8")
    backend = Tokenizer(models.WordLevel({token: id for id, token in enumerate(TOKENS)}, unk_token=TOKENS[3]))
    markup = "|".join(map(_literal, MARKUP))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{markup}| w\d+|\s"), "isolated")
    backend.add_special_tokens([TOKENS[0]])
    backend.save(str(folder / "tokenizer.json"))
    return ["--text", str(folder / "text.txt"), "--tokenizer", str(folder / "tokenizer.json"), "--length", str(LENGTH), "--sequences", str(SEQUENCES)]


def _literal(token: str) -> str:
    return "".join(f"\\{character}" if not character.isalnum() else character for character in token)
