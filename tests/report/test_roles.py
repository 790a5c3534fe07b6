"""What heads do in made-up models, as tables and pictures, and through the command."""

import json

import pytest
from matplotlib.patches import Rectangle

from fairseq_normalign.errors import InputError
from fairseq_normalign.names import Head
from fairseq_normalign.report.role_pictures import LOOKS, columns_picture
from fairseq_normalign.report.roles import CATEGORIES, Does, Model, as_text, read_models
from tests.conftest import run

SETTINGS = {"sentences": 9, "positional": 0.9, "margin": "relative", "rare": 0.5, "version": "1"}
FULL = {
    "encoder.1.1": (["positional"], ["+1 (93 %)"]),
    "encoder.1.2": ([], []),
    "encoder.2.1": (["syntactic"], ["nsubj→head 40/30", "head→obj 50/20"]),
    "encoder.2.2": (["positional", "rare"], ["-1 (95 %)", "rare (60 %)"]),
    "decoder.1.1": (["positional"], ["0 (99 %)"]),
    "cross.1.1": ([], []),
}
SMALL = {"encoder.2.2": (["rare"], ["rare (70 %)"])}


def write(path, heads, **settings) -> str:
    entries = []
    for head, (functions, roles) in heads.items():
        entries.append({"head": head, "scores": {}, "functions": functions, "roles": roles})
    signature = {"checkpoint": path.name.replace("json", "pt"), **SETTINGS, **settings}
    path.write_text(json.dumps({"signature": signature, "heads": entries}))
    return str(path)


def entries(*heads, **changes) -> str:
    """The JSON of some heads, right but for what is given."""
    listed = [{"head": head, "functions": [], "roles": [], **changes} for head in heads]
    return json.dumps({"signature": {"checkpoint": "a.pt"}, "heads": listed})


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "full.json", FULL), write(tmp_path / "small.json", SMALL)]


TABLE = """\
encoder self-attention: heads by function
model     heads  positional    syntactic  rare  last      several  none
full.pt       4           1  1 (2 roles)     0     0  1 (2 roles)     1
small.pt      1           0            0     1     0            0     0

what each head does
head         full.pt                           small.pt
encoder.1.1  +1 (93 %)                         removed
encoder.1.2  –                                 removed
encoder.2.1  nsubj→head 40/30, head→obj 50/20  removed
encoder.2.2  -1 (95 %), rare (60 %)            rare (70 %)"""


def test_tables(files):
    assert as_text(read_models(files), "encoder") == TABLE


def test_every_head_is_in_one_category():
    assert Does([], []).category == "none"
    assert Does(["rare"], ["rare (60 %)"]).category == "rare"
    assert Does(["positional", "rare"], ["a", "b"]).category == "several"
    assert set(LOOKS) == set(CATEGORIES)


def test_columns_hold_every_head_once(files):
    (axes,) = columns_picture(read_models(files), ["encoder"]).axes
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    drawn = [(bar.get_center()[0], bar.get_y(), bar.get_height(), bar.get_hatch()) for bar in bars]
    hatches = {name: look.hatch for name, look in LOOKS.items()}
    assert drawn == [
        (0, 0, 1, hatches["positional"]),
        (0, 1, 1, hatches["syntactic"]),
        (0, 2, 1, hatches["several"]),
        (0, 3, 1, hatches["none"]),
        (1, 0, 1, hatches["rare"]),
    ]
    assert [text.get_text() for text in axes.texts] == [
        "1",
        "1\n(2 roles)",
        "1\n(2 roles)",
        "1",
        "1",
    ]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["full.pt (4)", "small.pt (1)"]


def test_hatches_tell_categories_apart():
    hatches = [look.hatch for look in LOOKS.values()]
    assert len(set(hatches)) == len(hatches)


def test_a_model_without_heads_of_the_kind():
    models = [Model("a", {Head("cross", 0, 0): Does([], [])})]
    assert as_text(models, "encoder").endswith("head  a")
    columns_picture(models, ["encoder", "decoder"])


def test_what_was_not_measured_is_not_counted(tmp_path):
    """Here syntax, for want of a treebank; and a model whose encoder has no heads left."""
    plain = {name: value for name, value in SETTINGS.items() if name != "margin"}
    heads = {"encoder.1.1": (["positional"], ["+1 (93 %)"])}
    headless = {"decoder.1.1": ([], [])}
    paths = [write(tmp_path / "a.json", heads), write(tmp_path / "b.json", headless)]
    for path, settings in ((paths[0], plain), (paths[1], {"sentences": 9, "positional": 0.9})):
        contents = json.loads((tmp_path / path).read_text())
        contents["signature"] = {"checkpoint": path[-6:], **settings}
        (tmp_path / path).write_text(json.dumps(contents))
    models = read_models(paths)
    assert models[0].measured == ("positional", "rare", "last")
    lines = as_text(models, "encoder").splitlines()
    assert lines[2].split() == ["a.json", "1", "1", "–", "0", "0", "0", "0"]
    assert lines[3].split() == ["b.json", "0", "0", "–", "–", "0", "0", "0"]


def test_command(files, tmp_path):
    done = run("normalign", "roles", *files, "--plot", tmp_path / "roles.svg")
    assert done.stdout == TABLE + "\n"
    assert "syntactic" in (tmp_path / "roles.svg").read_text()
    both = run("normalign", "roles", *files, "--kinds", "encoder,decoder").stdout
    assert "\n\ndecoder self-attention: heads by function\n" in both
    assert "decoder.1.1  0 (99 %)  removed" in both


def test_files_of_models_of_one_name_are_told_apart(tmp_path):
    paths = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        paths.append(write(tmp_path / folder / "heads.json", SMALL))
    assert [model.name for model in read_models(paths)] == ["one/heads.json", "two/heads.json"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positional": 0.7}, "b.json: was measured with positional 0.7, .*a.json with 0.9"),
        ({"sentences": 10}, "was measured with sentences 10"),
        ({"rare": None}, "was measured with rare None, .* with 0.5; expected models that were"),
    ],
)
def test_roles_that_were_measured_otherwise(settings, message, tmp_path):
    paths = [write(tmp_path / "a.json", FULL), write(tmp_path / "b.json", SMALL, **settings)]
    with pytest.raises(InputError, match=message):
        read_models(paths)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a.json: no JSON .*; expected what `normalign heads -o` writes"),
        ("[1]", "a.json: has no heads and signature; expected what"),
        (
            '{"signature": {}, "heads": [{"head": "encoder.1.1", "roles": []}]}',
            "a.json: does not say what heads are for; expected .* in this version",
        ),
        (
            '{"signature": {}, "signature": {}, "heads": []}',
            "a.json: no JSON .a name comes twice",
        ),
        ('{"signature": {}, "heads": []}', "a.json: its signature names no checkpoint; expected"),
        ('{"signature": {}, "heads": {"a": 1}}', "a.json: its heads are no list of heads; exp"),
        (entries("encoder.1.1", "x"), "a.json: entry 2 of its heads is no head with functions"),
        (entries("cross.1.1", "cross.1.1"), "entry 2 of its heads .* or one that comes twice;"),
        (entries("encoder.1.1", None), "entry 2 of its heads is no head with functions and roles"),
        (entries("encoder.1.1", roles=None), "entry 1 of its heads is no head with functions and"),
        (entries("encoder.1.1", functions=["cook"]), "entry 1 of its heads is no head with funct"),
    ],
)
def test_files_of_something_else(text, message, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_models([str(path)])


def test_pictures_and_kinds_that_are_none(files, tmp_path):
    bad = run("normalign", "roles", *files, "--plot", "roles.txt", check=False)
    assert (bad.returncode, "--plot roles.txt: expected a name that ends in" in bad.stderr) == (
        2,
        True,
    )
    bad = run("normalign", "roles", *files, "--kinds", "self", check=False)
    assert "--kinds self: unknown attention 'self'" in bad.stderr
    bad = run("normalign", "roles", tmp_path / "no.json", check=False)
    assert bad.returncode == 2
    assert "no.json" in bad.stderr
