"""Models by their names on the Hugging Face Hub: from a cache, or from a stand-in for the Hub."""

import json
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants

import keras_bert as kb
from keras_bert.checkpoints.hub import download
from tests.checkpoints.huggingface import FIXTURES, check

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache as huggingface_hub lays it out: blobs, and snapshots of links to them."""
    repository = tmp_path / "models--someone--some-bert"
    for folder in ("blobs", "refs", f"snapshots/{COMMIT}"):
        (repository / folder).mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    for number, name in enumerate(("config.json", "model.safetensors")):
        blob = repository / "blobs" / (str(number) * 20)
        blob.write_bytes((FIXTURES / "bert-pretraining" / name).read_bytes())
        (repository / "snapshots" / COMMIT / name).symlink_to(f"../../blobs/{blob.name}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return repository


def test_from_the_cache(cache):
    check(kb.load("someone/some-bert"), "bert-pretraining")
    encoder = kb.load("someone/some-bert", task="encoder")
    assert isinstance(encoder, kb.Encoder)


def test_weights_of_tensorflow_are_fetched_only_without_safetensors(tmp_path, monkeypatch):
    """Most repositories have both, each of several hundred megabytes."""
    repository, fetched = tmp_path / "repository", tmp_path / "snapshot"
    repository.mkdir()
    for name in ("config.json", "model.safetensors", "tf_model.h5"):
        (repository / name).touch()

    def snapshot_download(name, revision, allow_patterns):
        files = [path for pattern in allow_patterns for path in repository.glob(pattern)]
        for path in files:
            shutil.copy(path, fetched)
        return str(fetched)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    for expected in (["config.json", "model.safetensors"], ["config.json", "tf_model.h5"]):
        fetched.mkdir()
        download("someone/some-bert")
        assert sorted(path.name for path in fetched.iterdir()) == expected
        shutil.rmtree(fetched)
        (repository / "model.safetensors").unlink(missing_ok=True)


def test_a_folder_of_that_name_comes_first(cache, tmp_path, monkeypatch):
    kb.save(kb.load("someone/some-bert", task="encoder"), tmp_path / "someone" / "some-bert")
    monkeypatch.chdir(tmp_path)
    assert isinstance(kb.load("someone/some-bert"), kb.Encoder)


def test_what_is_nowhere_is_named(cache):
    with pytest.raises(
        kb.CheckpointError, match=r"else does not exist here\. It cannot be downloaded"
    ):
        kb.load("someone/else")
    for path in ("some-bert", "./someone/some-bert", "/someone/some-bert", "a/b/c", cache / "x"):
        with pytest.raises(kb.CheckpointError, match="does not exist; give the directory"):
            kb.load(path)


@pytest.mark.parametrize("wrong", ["run/modle", "runn/model", "./run/modle"])
def test_what_is_misspelt_is_guessed(cache, wrong, tmp_path, monkeypatch):
    (tmp_path / "run/model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kb.CheckpointError, match="Did you mean 'run/model'"):
        kb.load(wrong)


def test_without_huggingface_hub_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(kb.InputError, match=r'pip install -e "\.\[hub\]"'):
        kb.load("someone/some-bert")


def test_a_damaged_blob_is_named(cache):
    (cache / "blobs" / ("1" * 20)).write_bytes(np.arange(99).tobytes())
    with pytest.raises(kb.CheckpointError, match="not a readable safetensors file"):
        kb.load("someone/some-bert")


NAME = "someone/some-bert"
TITLE = "Adding `safetensors` variant of this model"
PICKLED = {"config.json": b"{}", "pytorch_model.bin": b"a pickle"}


class StandIn:
    """A server with one repository, as far as huggingface_hub asks for it.

    `commits` has each commit's files. `references` has each reference's commits, newest first.
    """

    def __init__(self):
        self.commits, self.references, self.discussions = {}, {}, []
        self.private, self.token = False, None
        self.requests = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.requests.append(self.path)
                status, headers, body = hub.answer(unquote(self.path), self.headers)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": len(body)}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def do_HEAD(self):
                self.do_GET()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def commit(self, reference, files, after=()):
        self.commits[f"{len(self.commits) + 1:040x}"] = files
        self.references[reference] = [list(self.commits)[-1], *after]

    def pull_request(self, number, author="SFconvertbot", title=TITLE, status="open", **others):
        author = {"name": author}
        self.discussions.append(
            {"num": number, "title": title, "author": author, "status": status}
            | {"isPullRequest": True, "createdAt": "2024-01-01T00:00:00.000Z"}
            | {"repo": {"name": NAME, "type": "model"}}
            | others
        )

    def answer(self, path, headers):
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"X-Error-Code": "RepoNotFound"}, b""
        path, _, _ = path.partition("?")
        if path.startswith(f"/{NAME}/resolve/"):
            commit, _, file = path.removeprefix(f"/{NAME}/resolve/").partition("/")
            body = self.commits[commit][file]
            return 200, {"X-Repo-Commit": commit, "ETag": f'"{commit}{len(body)}{file}"'}, body
        kind, _, reference = path.removeprefix(f"/api/models/{NAME}").strip("/").partition("/")
        reference = reference or "main"
        commits = [reference] if reference in self.commits else self.references.get(reference)
        if not path.startswith(f"/api/models/{NAME}"):
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if commits is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        files = [
            {"type": "file", "path": name, "size": len(body), "oid": "0"}
            for name, body in self.commits[commits[0]].items()
        ]
        date = "2024-01-01T00:00:00.000Z"
        value = {
            "commits": [
                {"id": each, "authors": [], "date": date, "title": "", "message": ""}
                for each in commits
            ],
            "discussions": {"count": len(self.discussions), "start": 0}
            | {"discussions": self.discussions},
            "tree": files,
        }.get(kind, {"id": NAME, "sha": commits[0], "private": self.private})
        return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    hub = StandIn()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


def files(folder="bert-model"):
    names = ("config.json", "model.safetensors")
    return {name: (FIXTURES / folder / name).read_bytes() for name in names}


def test_revisions(hub):
    """A branch, a tag, a pull request and a commit, in both spellings."""
    hub.commit("main", files("bert-sequence"))
    for reference in ("v1.0", "wip/new", "refs/pr/3"):
        hub.commit(reference, files() | {"README.md": reference.encode()})
    for revision in ("v1.0", "wip/new", "refs/pr/3"):
        for name in (f"{NAME}@{revision}", f"{NAME}@{hub.references[revision][0]}"):
            assert (download(name) / "README.md").read_text() == revision
    check(kb.load(NAME, revision="v1.0"), "bert-model")
    check(kb.load(f"{NAME}@main"), "bert-sequence")
    with pytest.raises(kb.CheckpointError, match="someone/some-bert@v2 does not exist here.*404"):
        kb.load(NAME, revision="v2")


def test_wrong_revisions(cache, tmp_path):
    with pytest.raises(kb.InputError, match="is not on the hub; leave it out"):
        kb.load(tmp_path, revision="main")
    for name, revision in ((f"{NAME}@main", "v1"), (NAME, ""), (NAME, "a b"), ("bert", "main")):
        with pytest.raises(kb.InputError, match="names no model on the hub"):
            kb.load(name, revision=revision)


def test_a_conversion_is_found(hub, caplog):
    hub.commit("main", PICKLED)
    main = hub.references["main"]
    for number in range(1, 8):
        hub.commit(f"refs/pr/{number}", files(), after=main)
    hub.pull_request(1, author="somebody")  # everybody can open one with this title
    hub.pull_request(2, title="Another")
    hub.pull_request(3, status="closed")
    hub.pull_request(4, isPullRequest=False)
    hub.pull_request(5)
    hub.commit("refs/pr/5", files("bert-sequence"), after=main)
    check(kb.load(NAME), "bert-sequence")
    assert [record.getMessage() for record in caplog.records] == [
        "someone/some-bert has only a pickle; the safetensors of its pull request refs/pr/5 are "
        "used."
    ]
    assert download(f"{NAME}@{main[0]}") == download(f"{NAME}@refs/pr/5")
    assert not [path for path in hub.requests if "resolve" in path and ".bin" in path]


def test_a_private_conversion_has_its_owner_as_author(hub, monkeypatch):
    hub.commit("main", PICKLED)
    hub.commit("refs/pr/1", files(), after=hub.references["main"])
    hub.pull_request(1, author="somebody")
    hub.private, hub.token = True, "hf_secret"
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(kb.CheckpointError, match="It cannot be downloaded .*401"):
        kb.load(NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    check(kb.load(NAME), "bert-model")


def test_a_pickle_alone_is_refused(hub):
    hub.commit("main", PICKLED)
    with pytest.raises(kb.CheckpointError) as caught:
        kb.load(NAME)
    assert str(caught.value) == (
        "someone/some-bert has its weights only in pytorch_model.bin, a pickle, which can run any "
        "code when it is opened, so this package never opens it. Convert it in the Space "
        "safetensors/convert or, if you trust it, with transformers: load it with its class and "
        'write it with save_pretrained("DIRECTORY", safe_serialization=True).'
    )
    hub.commit("refs/pr/1", files(), after=hub.references["main"])
    hub.pull_request(1)
    hub.commit("main", {**PICKLED, "README.md": b""}, after=hub.references["main"])
    advice = "refs/pr/1 is of another commit; if it will do, load someone/some-bert@refs/pr/1"
    with pytest.raises(kb.CheckpointError, match=advice):
        kb.load(NAME)
    check(kb.load(f"{NAME}@refs/pr/1"), "bert-model")
    hub.commit("main", {"config.json": PICKLED["config.json"]})
    with pytest.raises(kb.CheckpointError, match=r"model\.safetensors is missing|model_type"):
        kb.load(NAME)


@pytest.mark.parametrize("offline", [True, pytest.param(False, marks=pytest.mark.sweep)])  # 25 s
def test_a_conversion_in_the_cache_is_named_without_a_network(offline, hub, monkeypatch):
    hub.commit("main", PICKLED)
    hub.commit("refs/pr/1", files(), after=hub.references["main"])
    hub.pull_request(1)
    download(NAME)
    hub.server.shutdown()
    hub.server.server_close()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    advice = "cannot be asked for a conversion: .* name its revision, such as .*@refs/pr/1"
    with pytest.raises(kb.CheckpointError, match=advice):
        kb.load(NAME)
    check(kb.load(NAME, revision="refs/pr/1"), "bert-model")
