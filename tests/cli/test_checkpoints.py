"""Several checkpoints: what is refused before, and after, they are loaded."""

import pytest

from fairseq_normalign.cli import stats
from fairseq_normalign.cli.checkpoints import Shape, check_alike
from fairseq_normalign.errors import InputError
from fairseq_normalign.names import Head

HEADS = [Head("encoder", 0, 1), Head("cross", 0, 1), Head("cross", 1, 3)]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Shape("en-de", HEADS), r"b\.pt translates en-de, a\.pt de-en; expected models of one"),
        (Shape("de-en", HEADS[:2]), r"a\.pt has a head cross\.2\.4, and b\.pt has none; expected"),
        (
            Shape("de-en", [*HEADS, Head("cross", 2, 0)]),
            r"b\.pt has a head cross\.3\.1, and a\.pt has none; expected checkpoints of one",
        ),
    ],
)
def test_models_that_are_not_alike_are_refused(other, message):
    check_alike(["a.pt", "b.pt"], [Shape("de-en", HEADS), Shape("de-en", HEADS[::-1])])
    with pytest.raises(InputError, match=message):
        check_alike(["a.pt", "b.pt"], [Shape("de-en", HEADS), other])


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (["data", "--path", "a.pt", "b.pt"], "data"),
        (["--path", "a.pt", "b.pt", "data", "--cpu"], "data"),
        (["--path", "a.pt", "b.pt", "data:data"], "data:data"),
    ],
)
def test_the_data_may_stand_behind_the_checkpoints(words, data, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    args = stats.parse_args(words)
    assert (args.data, args.path) == (data, ["a.pt", "b.pt"])
