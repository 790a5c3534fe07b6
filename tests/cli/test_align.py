"""``normalign align`` and ``normalign plot`` on a model trained for a moment."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_normalign.plugin  # noqa: F401  (lets torch.load read checkpoints)
from fairseq_normalign import InputError, load
from fairseq_normalign.alignment.aer import count
from fairseq_normalign.cli.plot import nth
from fairseq_normalign.host import raw_corpus
from fairseq_normalign.text.links import parse_links
from tests.conftest import PACKAGE, run

pytestmark = pytest.mark.slow


def align(corpus, checkpoint, *options, command="align", **more):
    return run(
        "normalign", command, corpus / "data-bin", "--cpu", "--path", checkpoint, *options, **more
    )


def test_binarised_data_and_text_give_the_same_links(corpus, checkpoint, text, tmp_path):
    binarised = align(
        corpus,
        checkpoint,
        *("--remove-bpe", "sentencepiece", "--layer", 2, "--step", "input"),
        *("--max-tokens", 100),
    )
    from_text = align(
        corpus, checkpoint, *text, "--layer", 2, "--step", "input", "--user-dir", PACKAGE
    )
    assert binarised.stdout == from_text.stdout
    assert "method:norms|layer:2|head:all|step:input|eos:null" in binarised.stderr
    lines = binarised.stdout.splitlines()
    assert len(lines) == 40
    sources = (corpus / "test.src").read_text().splitlines()
    targets = (corpus / "test.tgt").read_text().splitlines()
    for line, source, target in zip(lines, sources, targets, strict=True):
        source_words, target_words = len(source.split()), len(target.split())
        assert all(s < source_words and t < target_words for s, t in parse_links(line))


def test_output_has_a_signature_that_aer_reports(corpus, checkpoint, text, tmp_path):
    output = tmp_path / "test.pharaoh"
    done = align(
        corpus,
        checkpoint,
        *text,
        *("--method", "weights", "--step", "output", "--output", output),
    )
    assert done.stdout == ""
    signature = json.loads((tmp_path / "test.pharaoh.json").read_text())["signature"]
    assert signature["method"] == "weights"
    assert signature["layer"] in ("auto:1", "auto:2", "auto:3")
    scored = run("normalign", "aer", corpus / "test.talp", "-i", output).stdout
    assert f"|method:weights|layer:{signature['layer']}|" in scored
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.pharaoh", "test.pharaoh.json"]


def test_generated_translations_are_aligned_as_they_are_generated(
    corpus, checkpoint, pieces, tmp_path
):
    """The task's --print-alignment and --hypotheses on its log give the same, for any beam.

    Both link words, which the task joins by the marks of the dictionary.
    """
    options = [
        *("--task", "translation_normalign", "--print-alignment", "hard"),
        *("--align-layer", 2, "--align-step", "input"),
    ]
    options += [*("--remove-bpe", "sentencepiece", "--beam", 3, "--nbest", 2)]
    command = [
        "fairseq-generate",
        corpus / "data-bin",
        *("--path", checkpoint, "--user-dir", PACKAGE, "--cpu"),
    ]
    log = run(*command, *options, "--max-len-b", 12).stdout
    (tmp_path / "gen.out").write_text(log)
    printed = {}
    for line in log.splitlines():
        if line.startswith("A-"):
            number, _, links = line[2:].partition("\t")
            printed.setdefault(int(number), parse_links(links))
    aligned = align(
        corpus,
        checkpoint,
        *pieces,
        *("--layer", 2, "--step", "input", "--hypotheses", tmp_path / "gen.out"),
    ).stdout.splitlines()
    assert [parse_links(line) for line in aligned] == [printed[number] for number in range(40)]


def test_combined_evidence_of_two_models(corpus, checkpoint, reverse, text, tmp_path):
    options = [
        *text,
        *("--combine", "learned", "--reverse-path", reverse),
        *("--output", tmp_path / "out"),
    ]
    align(corpus, checkpoint, *options, "--confidence")
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == 40
    assert all(re.fullmatch(r"(\d+-\d+:[01]\.\d{3} ?)*", line) for line in lines)
    signature = json.loads((tmp_path / "out.json").read_text())["signature"]
    assert signature["evidences"] == 2 * 3 * 5 * 2
    assert signature["combine"] == "learned"


def test_links_of_another_aligner_and_a_learned_file(corpus, checkpoint, reverse, text, tmp_path):
    """Two models are combined by default; what was learned gives the same links again."""
    links, learned = tmp_path / "links", tmp_path / "deen.learned"
    align(corpus, checkpoint, *text, "--output", links)
    options = [*text, "--reverse-path", reverse, "--evidence", f"links:{links}"]
    for name in ("first", "again"):
        output = tmp_path / name
        done = align(corpus, checkpoint, *options, "--learned", learned, "--output", output)
    assert "deen.learned: weights learned on 40 pairs without gold; agreement" in done.stderr
    assert (tmp_path / "first").read_text() == (tmp_path / "again").read_text()
    signature = json.loads((tmp_path / "first.json").read_text())["signature"]
    assert signature["combine"] == "learned"
    assert signature["links"] == 1
    done = align(
        corpus, checkpoint, *options, "--learned", learned, "--bitext", *text[1:4:2], check=False
    )
    assert done.returncode == 2
    assert "deen.learned: was learned without a bitext" in done.stderr


def test_python_aligns_as_the_command_does(corpus, checkpoint, reverse, text, tmp_path):
    """One sentence, too, with what was learned; and without, what the command decides."""
    learned = tmp_path / "deen.learned"
    files = {"bpe": "sentencepiece", "sentencepiece_model": str(corpus / "spm.model")}
    options = {"data": str(corpus / "data-bin"), "cpu": True, **files}
    sides = [Path(name).read_text().splitlines() for name in text[1:4:2]]
    pairs = list(zip(*sides, strict=True))
    for both in ([], ["--reverse-path", reverse]):
        words = [*text, *both, "--combine", "learned", "--learned", learned]
        done = align(corpus, checkpoint, *words)
        lines = [parse_links(line) for line in done.stdout.splitlines()]
        models = list(map(str, [checkpoint, *both[1:]]))
        aligner = load(*models, learned=str(learned), **options)
        assert sorted(aligner.align(*pairs[3])) == sorted(lines[3])
        again = load(*models, combine="learned", **options).decide(pairs)
        assert list(map(sorted, again.align_many(pairs))) == list(map(sorted, lines))
        again.save(tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == learned.read_bytes()
        learned.unlink()
    layer = load(str(checkpoint), layer=2, step="input", **options)
    assert layer.signature()["layer"] == 2
    with pytest.raises(InputError, match="no such file or folder"):
        load(str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="unknown option: --bpee"):
        load(str(checkpoint), data=options["data"], bpee="sentencepiece")


def test_shift_att_of_two_models(corpus, checkpoint, reverse, files, pieces, tmp_path, monkeypatch):
    """It equals what both directions by themselves give, where they take the same layers."""
    # The reverse model is a copy of the model: by itself, it finds the text swapped.
    monkeypatch.setattr(raw_corpus, "SWAPPED", math.inf)
    common = [*pieces, "--method", "shift-att"]
    both = align(corpus, checkpoint, *files, *common, "--reverse-path", reverse, "--layer", 2)
    assert "|reverse-layer:2|symmetrize:grow-diag:lilt" in both.stderr
    # The fixture only says that it is of the other direction, and finds the sides swapped.
    monkeypatch.setattr("fairseq_normalign.host.raw_corpus.SWAPPED", float("inf"))
    turned = ["--source-file", corpus / "test.tgt", "--target-file", corpus / "test.src"]
    align(corpus, checkpoint, *files, *common, "--layer", 2, "-o", tmp_path / "forward")
    align(corpus, reverse, *turned, *common, "--layer", 2, "-o", tmp_path / "backward")
    grown = run(
        *("normalign", "symmetrize", tmp_path / "forward", tmp_path / "backward"),
        *("--heuristic", "grow-diag", "--variant", "lilt"),
    )
    assert list(map(parse_links, grown.stdout.splitlines())) == list(
        map(parse_links, both.stdout.splitlines())
    )
    chosen = align(corpus, checkpoint, *files, *common, "--reverse-path", reverse, "--confidence")
    assert re.search(r"\|layer:auto:\d\|.*\|reverse-layer:auto:\d\|", chosen.stderr)
    assert all(
        re.fullmatch(r"(\d+-\d+:[01]\.\d{3} ?)*", line) for line in chosen.stdout.splitlines()
    )


def test_plot_writes_a_picture(corpus, checkpoint, tmp_path):
    options = [
        *("--remove-bpe", "sentencepiece", "--gold", corpus / "test.talp", "--line", 2),
        *("-o", tmp_path / "pair.png"),
    ]
    align(corpus, checkpoint, *options, command="plot")
    assert (tmp_path / "pair.png").read_bytes().startswith(b"\x89PNG")
    wrong = tmp_path / "wrong.talp"
    wrong.write_text("0-0\n0-0 99-0\n")
    options[options.index(corpus / "test.talp")] = wrong
    done = align(corpus, checkpoint, *options, command="plot", check=False)
    assert done.returncode == 2
    assert "wrong.talp:2: link 99-0 where there are" in done.stderr
    with pytest.raises(InputError, match="--line 3: the corpus has 2 lines"):
        nth("ab", 3, "the corpus")


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn, with its panels."""
    from fairseq_normalign.alignment import pictures

    calls = []
    draw = pictures.soft_alignments

    def noted(panels, *args, **options):
        calls.append([panels, *args, options])
        return draw(panels, *args, **options)

    monkeypatch.setattr(pictures, "soft_alignments", noted)
    return calls


def test_plot_of_layers_frames_the_links_that_align_prints(corpus, checkpoint, tmp_path, drawn):
    bpe = ("--remove-bpe", "sentencepiece")
    options = ["--gold", corpus / "test.talp", "--line", 2, "--layers", "all", "--step", "output"]
    options += ["--method", "weights", "norms", "--extract", "mutual-argmax"]
    align(corpus, checkpoint, *bpe, *options, "-o", tmp_path / "pair.svg", command="plot")
    panels, _, gold, texts = drawn[0]
    assert [len(row) for row in panels] == [3, 3]
    assert texts["titles"][0] == "source (src)"
    assert texts["title"] == "Pair 2. Frames: links by mutual-argmax"
    choices = ("--method", "norms", "--layer", 3, "--step", "output", "--extract", "mutual-argmax")
    align(corpus, checkpoint, *bpe, *choices, "-o", tmp_path / "links")
    line = (tmp_path / "links").read_text().splitlines()[1]
    panel = panels[1][2]
    assert panel.links == set(parse_links(line))
    scored = count(panel.links, gold).aer
    assert panel.title == f"norms, layer 3, step output\nAER {100 * scored:.1f}"


def test_interactive_answers_each_line_at_once(
    corpus, checkpoint, reverse, files, pieces, tmp_path
):
    learned = tmp_path / "deen.learned"
    models = [*pieces, "--reverse-path", reverse, "--combine", "learned", "--learned", learned]
    expected = align(corpus, checkpoint, *files, *models).stdout.splitlines()
    lines = [(corpus / name).read_text().splitlines() for name in ("test.src", "test.tgt")]
    words = ["align", corpus / "data-bin", "--cpu", "--path", checkpoint, *models, "--interactive"]
    command = [Path(sys.executable).with_name("normalign"), *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        for source, target, links in list(zip(*lines, expected, strict=True))[:3]:
            run.stdin.write(f"{source} ||| {target}\n")
            run.stdin.flush()
            assert run.stdout.readline() == f"{links}\n"  # before the next one is sent
        run.stdin.close()
    assert run.returncode == 0


def test_never_empty_gives_the_best_link(corpus, checkpoint, text):
    weights = ["--method", "weights", "--layer", 1, "--step", "input", "--extract", "absolute:1"]
    strict = [*text, *weights]
    assert not align(corpus, checkpoint, *strict).stdout.strip()
    done = align(corpus, checkpoint, *strict, "--never-empty", "--confidence")
    assert all(len(line.split()) == 1 for line in done.stdout.splitlines())
    assert "never-empty:1" in done.stderr
