"""The hub's side, against a small server on this machine that answers as the hub does.

huggingface_hub reads its settings once, when it is imported: each test asks in a process of its own.
"""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.test_tokenizer import byte_level

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORIES = {
    "models/lab/bytes": {"tokenizer.json": byte_level(257).to_str().encode(), "tokenizer_config.json": b'{"eos_token": "a"}', "code.py": b"1 / 0"},
    "datasets/lab/texts": {"train.jsonl": b'{"text": "seen"}\n', "test.jsonl": b'{"text": "one"}\n{"text": "two"}\n'},
}
ASK = """
import json, sys
from db.errors import UserError
from precompute.documents import documents_in_dataset
from precompute.tokenizer import load

def tokenizer(name):
    found = load(name)
    return found.name, found.size, found.end_of_text, found.encode(["ab"])

def dataset(*arguments):
    documents, source, revision = documents_in_dataset(*arguments)
    return list(documents), source, revision

for line in json.loads(sys.argv[1]):
    try:
        print(json.dumps(globals()[line[0]](*line[1:])))
    except UserError as error:
        print(json.dumps(str(error)))
"""


def answers():
    """path -> content, for one commit of every repository."""
    found = {}
    for repository, files in REPOSITORIES.items():
        facts = {"id": repository.partition("/")[2], "sha": COMMIT, "private": False, "tags": [], "downloads": 0, "likes": 0}
        about = json.dumps(facts | {"siblings": [{"rfilename": name} for name in files]}).encode()
        tree = json.dumps([{"type": "file", "path": name, "size": len(content), "oid": "0" * 40} for name, content in files.items()]).encode()
        api, place = f"/api/{repository}", "/" + repository.removeprefix("models/")
        found |= {api: about, f"{api}/revision/main": about, f"{api}/revision/{COMMIT}": about, f"{api}/tree/{COMMIT}": tree}
        found |= {f"{place}/resolve/{COMMIT}/{name}": content for name, content in files.items()}
    return found


def refusal(path):
    """Status and error code of the hub for a path that it does not have."""
    for name, answer in {"lab/ill": (503, None), "lab/gated": (403, "GatedRepo"), "lab/none": (401, "RepoNotFound")}.items():
        if name in path:
            return answer
    return 404, "RevisionNotFound" if "/revision/" in path else "EntryNotFound"


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers = answers()

    def do_GET(self):
        path = self.path.partition("?")[0]
        content = self.answers.get(path, b"")
        status, error = (200, None) if content else refusal(path)
        self.send_response(status)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("ETag", f'"{len(content)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def hub():
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def ask(lines, home, endpoint, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"} | settings
    command = [sys.executable, "-c", ASK, json.dumps(lines)]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_the_hub_has_is_fetched_at_a_commit_and_found_again_offline(tmp_path, hub):
    tokenizer = ["lab/bytes", 257, 65, [[65, 66]]]
    held_out = [["one", "two"], "lab/texts, split test", COMMIT]
    lines = [("tokenizer", "lab/bytes"), ("dataset", "lab/texts"), ("dataset", "lab/texts", None, COMMIT), ("dataset", "lab/texts", "train")]
    assert ask(lines, tmp_path, hub) == [tokenizer, held_out, held_out, [["seen"], "lab/texts, split train", COMMIT]]
    assert not list(tmp_path.rglob("code.py"))
    assert ask([("tokenizer", "lab/bytes")], tmp_path, hub, HF_HUB_OFFLINE="1") == [tokenizer]


def test_what_the_hub_refuses_is_one_sentence(tmp_path, hub):
    start, end = "Data set {} is no file or folder here and cannot be fetched: ", ". Give a folder or file that holds it."
    unknown = "the hub has none of that name, or it is private (then run `hf auth login`)"
    gated = "its owner grants access on request; ask for it on the hub, then run `hf auth login`"
    lines = [("dataset", "lab/none"), ("dataset", "lab/gated"), ("dataset", "lab/texts", None, "v9"), ("dataset", "lab/ill"), ("tokenizer", "lab/none")]
    lines += [("dataset", "lab/texts", "held"), ("tokenizer", "lab/ill")]
    assert ask(lines, tmp_path, hub) == [
        start.format("lab/none") + unknown + end,
        start.format("lab/gated") + gated + end,
        start.format("lab/texts at revision v9") + "the hub has no such revision of it" + end,
        start.format("lab/ill") + "the hub answered with status 503" + end,
        f"Tokenizer lab/none is no file or folder here and cannot be fetched: {unknown}. Give a folder holding tokenizer.json.",
        "Data set lab/texts has no split held; it has train, test.",
        "Tokenizer lab/ill is no file or folder here and cannot be fetched: the hub answered with status 503. Give a folder holding tokenizer.json.",
    ]


@pytest.mark.parametrize(("settings", "reason"), [({}, "ConnectError"), ({"HF_HUB_OFFLINE": "1"}, "OfflineModeIsEnabled")])
def test_a_hub_out_of_reach_is_one_sentence(tmp_path, settings, reason):
    lines = [("tokenizer", "lab/bytes"), ("dataset", "lab/texts")]
    assert ask(lines, tmp_path, "http://127.0.0.1:9", **settings) == [
        f"Tokenizer lab/bytes is no file or folder here and cannot be fetched: the hub cannot be reached ({reason}). Give a folder holding tokenizer.json.",
        f"Data set lab/texts is no file or folder here and cannot be fetched: the hub cannot be reached ({reason}). Give a folder or file that holds it.",
    ]
