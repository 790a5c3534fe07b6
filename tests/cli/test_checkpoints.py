"""Several checkpoints: what is refused before, and after, they are loaded."""

import pytest

from fairseq_normalign.cli import stats
from fairseq_normalign.cli.checks import check_directions
from fairseq_normalign.errors import InputError


def test_models_of_different_directions_are_refused():
    check_directions(["a.pt", "b.pt"], ["de-en", "de-en"])
    with pytest.raises(InputError, match=r"b\.pt translates en-de, a\.pt de-en; name models of"):
        check_directions(["a.pt", "b.pt"], ["de-en", "en-de"])


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
