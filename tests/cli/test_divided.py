"""Commands resume, and are divided: the result is bit for bit that of an unbroken run."""

from pathlib import Path

import pytest

from fairseq_normalign.runs.folder import RunFolder
from tests.conftest import refused, run

FILES = ("ab.pt", "ab2.pt", "ba.pt", "gold", "trees")
DIVIDED = {
    "align, one layer": "--path ab.pt --combine none --confidence --index 1 --chunk 10",
    "align, product of few pairs": "--path ab.pt --chunk 10",
    "align, learned": "--path ab.pt -r ba.pt --combine learned --learn-pairs 30 --chunk 10",
    "align, shift-att": "--path ab.pt -r ba.pt --method shift-att --chunk 10",
    "export": "--path ab.pt --quantity head-norms --chunk 6",
    "heads": (
        "--path ab.pt --relevance epsilon --relevance-mode pooled --ablation 4 --ablation-bleu 2 "
        "--gold gold --rare-top 5 --conllu trees --chunk 9"
    ),
    "methods": "--path ab.pt ab2.pt --gold gold --no-cost --chunk 7",
    "mixing": "--path ab.pt ab2.pt --chunk 5",
    "stats": "--path ab.pt --mixing --chunk 7",
}


def command(place, name, output, *more, text="text.a"):
    options = [place / word if word in FILES else word for word in DIVIDED[name].split()]
    words = ["normalign", name.partition(",")[0], place, "--cpu", *options, "--max-tokens", "100"]
    words += ["--source-file", place / text, "--target-file", place / "text.b"]
    return [*words, *more, "-o", output]


def written(output):
    """What is in the folder of the output, which has files of this run alone."""
    return {path.name: path.read_bytes() for path in output.parent.iterdir()}


@pytest.fixture(params=DIVIDED)
def divided(request, place, tmp_path):
    """A command, and what one process makes in one go: the files, and what is printed."""
    for name in ("expected", "here"):
        (tmp_path / name).mkdir()
    output = tmp_path / "expected" / "out.json"
    whole = run(*command(place, request.param, output))
    assert written(output).keys() <= {"out.json", "out.json.json"}
    return request.param, written(output), whole.stdout


@pytest.fixture
def output(tmp_path):
    return tmp_path / "here" / "out.json"


def broken_off(words, chunks):
    """Runs a command until so many chunks are done."""
    keep = RunFolder.keep

    def keep_some(self, chunk, made):
        if self.done() == chunks:
            raise KeyboardInterrupt
        keep(self, chunk, made)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunFolder, "keep", keep_some)
        assert run(*words, check=False).returncode == 130


def test_what_is_broken_off_goes_on(place, divided, output):
    name, expected, printed = divided
    words = command(place, name, output)
    for chunks in (1, 3):
        broken_off(words, chunks)
        assert not output.exists()
        assert len(list(Path(f"{output}.run").glob("chunk-*"))) == chunks
    done = run(*words)
    assert " pairs were done before" in done.stderr
    assert (written(output), done.stdout) == (expected, printed)


def test_shards_are_merged(place, divided, output):
    name, expected, printed = divided
    for shard in (1, 0):
        done = run(*command(place, name, output, "--num-shards", 2, "--shard-id", shard))
        assert done.stdout == ""
        assert "done before" not in done.stderr  # by this shard
    done = run("normalign", "merge", output)
    assert (written(output), done.stdout) == (expected, printed)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_workers(place, divided, output, engine):
    name, expected, printed = divided
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
        if name != "align, learned":
            pytest.skip("one command is enough")
    words = command(place, name, output, "--engine", engine, "--workers", 2)
    done = run(*words, installed=True)
    assert (written(output), done.stdout) == (expected, printed)
    assert "INFO" not in done.stderr  # of fairseq, which workers import, too


def test_what_differs_is_refused_until_restart(place, output):
    output.parent.mkdir()
    broken_off(command(place, "stats", output), 2)
    other = command(place, "stats", output, "--ranks", "counts")
    message = "was begun with --ranks ids, and this run is with --ranks counts; use the"
    assert message in refused(*other)
    assert "out.json: was begun " in refused(*command(place, "mixing", output))
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    (place / "changed").write_text("".join(["w1 w2 w3\n", *lines[1:]]))
    text = command(place, "stats", output, text="changed")
    message = "of another text; use the same text, or --restart (2 finished chunks are ke"
    assert message in refused(*text)
    run(*text, "--restart")
    assert written(output).keys() == {"out.json"}
