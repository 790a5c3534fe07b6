"""What heads do in made-up models, side by side, and through the command."""

import json

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.role_comparison import compared
from fairseq_normalign.results.blocks import Table
from fairseq_normalign.results.result import StoredResult
from tests.conftest import run

SETTINGS = {"sentences": 9, "positional": 0.9, "margin": "relative", "rare": 0.5, "version": "1"}
FULL = {
    "encoder.1.1": [("positional", "+1 (93 %)")],
    "encoder.1.2": [],
    "encoder.2.1": [("syntactic", "nsubj→head 40/30"), ("syntactic", "head→obj 50/20")],
    "encoder.2.2": [("positional", "-1 (95 %)"), ("rare", "rare (60 %)")],
    "decoder.1.1": [("positional", "0 (99 %)")],
    "cross.1.1": [],
}
SMALL = {"encoder.2.2": [("rare", "rare (70 %)")]}


def write(path, heads, settings=SETTINGS, *more, kind="heads") -> str:
    roles = [[head, *role] for head, of_head in heads.items() for role in of_head]
    tables = [
        Table(["head"], [[head] for head in heads], name="heads"),
        Table(["head", "function", "role"], roles, name="roles", hidden=True),
        *more,
    ]
    signature = {"checkpoint": path.name.replace("json", "pt"), **settings}
    result = StoredResult(kind, "Attention heads", tables, signature=signature)
    path.write_text(json.dumps(result.json()))
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "full.json", FULL), write(tmp_path / "small.json", SMALL)]


TEXT = """\
encoder self-attention: heads by function
model     heads  positional  syntactic  rare  last  several  none
full.pt       4           1          1     0     0        1     1
small.pt      1           0          0     1     0        0     0

What each head does
head         full.pt                           small.pt
encoder.1.1  +1 (93 %)                         removed
encoder.1.2  –                                 removed
encoder.2.1  nsubj→head 40/30, head→obj 50/20  removed
encoder.2.2  -1 (95 %), rare (60 %)            rare (70 %)
"""


def test_command(files, tmp_path):
    outputs = ["--plot", tmp_path / "roles.svg", "-o", tmp_path / "roles.json"]
    words = ["normalign", "roles", *files]
    done = run(*words, *outputs)
    assert done.stdout == TEXT
    assert done.stderr.startswith("checkpoints:full.pt+small.pt|sentences:9|positional:0.9|")
    assert "syntactic" in (tmp_path / "roles.svg").read_text()
    assert json.loads((tmp_path / "roles.json").read_text())["kind"] == "roles"
    both = run(*words, "--kinds", "encoder,decoder").stdout
    assert "\n\ndecoder self-attention: heads by function\n" in both
    assert "decoder.1.1  0 (99 %)  removed" in both
    assert "would overwrite the input" in run(*words, "-o", files[0], check=False).stderr


def test_what_was_not_measured_is_not_counted(tmp_path):
    """Here syntax, for want of a treebank; and a model whose encoder has no heads left."""
    plain = {name: value for name, value in SETTINGS.items() if name != "margin"}
    a = write(tmp_path / "a.json", {"encoder.1.1": [("positional", "+1 (93 %)")]}, plain)
    b = write(tmp_path / "b.json", {"decoder.1.1": []}, {"sentences": 9, "positional": 0.9})
    lines = compared([a, b], ["encoder"]).text().splitlines()
    assert lines[2].split() == ["a.pt", "1", "1", "–", "0", "0", "0", "0"]
    assert lines[3].split() == ["b.pt", "0", "0", "–", "–", "0", "0", "0"]


def test_files_of_models_of_one_name_are_told_apart(tmp_path):
    paths = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        paths.append(write(tmp_path / folder / "heads.json", SMALL))
    models = compared(paths, ["encoder"]).models
    assert [model.name for model in models] == ["one/heads.json", "two/heads.json"]


def test_roles_that_were_measured_otherwise(tmp_path):
    other = write(tmp_path / "b.json", SMALL, {**SETTINGS, "positional": 0.7})
    message = "b.json: was measured with positional 0.7, .*a.json with 0.9"
    files = [write(tmp_path / "a.json", FULL), other]
    with pytest.raises(InputError, match=message):
        compared(files, ["encoder"])
    not_measured = write(tmp_path / "first.json", SMALL, {"sentences": 9})
    with pytest.raises(InputError, match=message):
        compared([not_measured, *files], ["encoder"])


LAYERS = Table(["layer"], [["encoder.1"]], name="layers")


@pytest.mark.parametrize(
    ("heads", "more", "kind", "message"),
    [
        (FULL, [], "mixing", "a.json: not the heads of one model; pass what `normalign heads -o`"),
        (FULL, [LAYERS], "heads", "a.json: not the heads of one model"),
        ({"x": []}, [], "heads", "a.json: damaged .*'x' is no head"),
    ],
)
def test_files_of_something_else(heads, more, kind, message, tmp_path):
    path = write(tmp_path / "a.json", heads, SETTINGS, *more, kind=kind)
    with pytest.raises(InputError, match=message):
        compared([path], ["encoder"])
