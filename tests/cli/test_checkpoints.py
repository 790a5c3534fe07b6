"""Several checkpoints: what is refused before, and after, they are loaded."""

import pytest

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import Shape, check_alike
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import Head

HEADS = {("encoder", 0): 4, ("cross", 0): 4, ("cross", 1): 4}


def test_models_of_one_architecture_are_alike():
    check_alike(["a.pt", "b.pt"], [Shape("de-en", HEADS), Shape("de-en", dict(HEADS))])


def test_pruned_models_with_other_heads_left_are_refused():
    """They may have as many of each kind."""
    one, other = Head("cross", 0, 1), Head("cross", 0, 3)
    alike = [Shape("de-en", HEADS, [one]), Shape("de-en", HEADS, [one])]
    check_alike(["a.pt", "b.pt"], alike)
    message = r"b\.pt: pruning has left it cross\.1\.4, and a\.pt cross\.1\.2; expected checkpoints"
    with pytest.raises(InputError, match=message):
        check_alike(["a.pt", "b.pt"], [alike[0], Shape("de-en", HEADS, [other])])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Shape("en-de", HEADS), r"b\.pt translates en-de, a\.pt de-en; expected models of one"),
        (
            Shape("de-en", {**HEADS, ("cross", 1): 2}),
            r"b\.pt: cross layer 2 has 2 heads, in a\.pt 4; expected checkpoints of one",
        ),
        (
            Shape("de-en", {**HEADS, ("cross", 2): 4}),
            r"b\.pt: cross layer 3 has 4 heads, in a\.pt 0; expected checkpoints of one",
        ),
    ],
)
def test_models_that_are_not_alike_are_refused(other, message):
    with pytest.raises(InputError, match=message):
        check_alike(["a.pt", "b.pt"], [Shape("de-en", HEADS), other])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["data", "--path", "a.pt", "b.pt"], ["data", "--path", "a.pt", "b.pt"]),
        (["--path", "a.pt", "data", "--cpu"], ["data", "--path", "a.pt", "--cpu"]),
        (["--path", "a.pt", "b.pt", "data:data"], ["data:data", "--path", "a.pt", "b.pt"]),
        (["data", "--cpu"], ["data", "--cpu"]),
        (["data", "--path"], ["data", "--path"]),
    ],
)
def test_the_data_may_stand_behind_the_checkpoints(words, expected, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert options.data_before_paths(words) == expected
