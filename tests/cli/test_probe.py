"""``normalign probe`` on tiny random models, in process."""

import pytest

from fairseq_normalign.results.result import read_result
from fairseq_normalign.version import __version__
from tests.cli.test_evolution import folder  # noqa: F401  (a fixture)
from tests.conftest import run
from tests.layers.test_evolution import lines
from tests.layers.test_probing import tree


def conllu(sentences) -> str:
    """A treebank: every word depends on the first."""
    rows = []
    for sentence in sentences:
        words = tree(sentence)
        for number, (word, tag) in enumerate(zip(words.words, words.tags, strict=True), 1):
            head, relation = (0, "root") if number == 1 else (1, "dep")
            rows.append("\t".join(map(str, [number, word, "_", tag, "_", "_", head, relation])))
            rows[-1] += "\t_\t_"
        rows.append("")
    return "\n".join(rows) + "\n"


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text(conllu(lines(120)))
    return path


def probe(folder, *options, paths=("translation.pt",), **more):  # noqa: F811
    checkpoints = [folder / path for path in paths]
    return run("normalign", "probe", folder, "--path", *checkpoints, "--cpu", *options, **more)


def test_two_models(folder, treebank, tmp_path):  # noqa: F811
    output = ["-o", tmp_path / "x.json", "--plot", tmp_path / "x.png", "--limit", 100]
    paths = ("translation.pt", "language.pt")
    done = probe(folder, "--conllu", treebank, *output, paths=paths)
    table = done.stdout.splitlines()
    assert table[1].split()[:3] == ["layer", "translation.pt", "translation.pt,"]
    assert [line.split()[0] for line in table[2:5]] == ["0", "1", "2"]
    assert float(table[2].split()[1]) > 80
    assert done.stderr == (
        "checkpoints:translation.pt,language.pt|sentences:100|treebank:x.conllu|lowercase:False|test-share:0.2|seed:1"
        f"|version:{__version__}\n"
    )
    rows = read_result(tmp_path / "x.json").tables()["words"].rows
    assert [row[:2] for row in rows] == [["translation.pt", 3], ["language.pt", 3]]
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
