"""Long runs of ``normalign align``: the same bytes, however the work is divided or broken off."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.text.link_formats import FROM_1, OF_LINKS
from fairseq_normalign.text.links import InMemory, LinkFile, read_together
from tests.cli.conftest import PAIRS
from tests.cli.test_divided import broken_off
from tests.conftest import refused, run


def command(place, *options, output=None, both=False):
    words = ["normalign", "align", place, "--cpu", "--path", place / "ab.pt", "--chunk", 10]
    words += ["--source-file", place / "text.a", "--target-file", place / "text.b"]
    words += ["-s", "a", "-t", "b"]
    if both:
        words += ["--reverse-path", place / "ba.pt"]
    if output is not None:
        words += ["--output", output]
    return [*words, *options]


def bytes_of(output):
    return output.read_bytes(), json.loads(Path(f"{output}.json").read_text())["signature"]


KINDS = {
    "one layer": (("--combine", "none", "--confidence", "--index", "1"), False),
    "product of few pairs": (("--combine", "product"), False),
    "learned": (("--combine", "learned", "--learn-pairs", "30", "--confidence"), True),
    "shift-att": (("--method", "shift-att"), True),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_straight_to_stdout(place, kind, tmp_path):
    options, both = kind
    run(*command(place, *options, output=tmp_path / "out", both=both))
    done = run(*command(place, *options, both=both))
    assert done.stdout == (tmp_path / "out").read_text()
    assert len(done.stdout.splitlines()) == PAIRS


def test_formats_of_links(place, tmp_path):
    """Chunks of 10 lines; the links are the same in each format that holds them."""
    links = {}
    for format in OF_LINKS:
        run(*command(place, "-f", format, output=tmp_path / format))
        first = 1 if format in FROM_1 else 0
        file = LinkFile(tmp_path / format, index=first)
        numbers = InMemory("numbers", range(PAIRS))
        links[format] = [found for found, _ in read_together(file, numbers)]
    assert links["naacl"] == links["talp"] == links["jsonl"] == links["pharaoh"]
    soft = run(*command(place, "-f", "marian-soft")).stdout.splitlines()
    assert len(soft) == PAIRS
    words = [(place / f"text.{side}").read_text().splitlines()[0].split() for side in "ab"]
    shares = [row.split(",") for row in soft[0].split()]
    assert (len(shares[0]) - 1, len(shares) - 1) == tuple(map(len, words))
    for row in shares:
        assert sum(map(float, row)) == pytest.approx(1, abs=0.01)


def test_a_shard_that_is_missing(place, tmp_path):
    for shard in (2, 0):
        sharded = ("--num-shards", 3, "--shard-id", shard)
        run(*command(place, *sharded, output=tmp_path / "out"))
    (tmp_path / "out.run" / "shard-x-of-y.json").touch()  # a stranger
    line = refused("normalign", "merge", tmp_path / "out")
    assert "2 of 5 chunks are missing or damaged, those of --shard-id 1; run these s" in line


@pytest.mark.slow
def test_a_process_that_is_killed(place, tmp_path):
    expected, output = tmp_path / "expected", tmp_path / "out"
    slowly = ("--chunk", 1, "--method", "smoothgrad:10", "--step", "output")
    words = [str(word) for word in command(place, *slowly, output=output)]
    words[0] = str(Path(sys.executable).parent / words[0])
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env={**os.environ})
    for _ in range(30000):
        if len(list(tmp_path.glob("out.run/chunk-*"))) > 3:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not output.exists()
    before = len(list(tmp_path.glob("out.run/chunk-*")))
    assert before > 3
    done = run(*command(place, *slowly, output=output))
    assert " pairs were done before" in done.stderr
    run(*command(place, *slowly, output=expected))
    assert bytes_of(output) == bytes_of(expected)


@pytest.mark.parametrize("method", ["norms", "alti", "lrp", "smoothgrad"])
def test_chunks_do_not_change_the_links_of_a_method(place, method):
    spec = "smoothgrad:2" if method == "smoothgrad" else method
    layer = ("--layer", 2) if METHODS[method].layers else ()
    options = ("--method", spec, *layer, "--step", METHODS[method].steps[0])
    whole = run(*command(place, *options, "--chunk", 1000)).stdout
    assert run(*command(place, *options, "--chunk", 7)).stdout == whole


def test_text_from_a_pipe(place, tmp_path):
    expected = run(*command(place, both=True)).stdout
    words = command(place, both=True)
    words[words.index(place / "text.a")] = "-"
    done = run(*words, stdin=(place / "text.a").open())
    assert done.stdout == expected


@pytest.fixture
def begun(place, tmp_path):
    """The output of a run that was broken off after two chunks."""
    broken_off(command(place, output=tmp_path / "out"), 2)
    return tmp_path / "out"


def check_refused(words, message):
    assert message in refused(*words)


BAD = [
    (["--hypotheses", "{text}"], "--hypotheses and --target-file both name the target"),
    (["--target-file", "{short}"], "line counts differ: "),
    (["--user-dir", "none"], "none: no such directory; expected that of a plugin"),
    (["--remove-bpe", "morse"], "unsupported BPE 'morse'"),
    (["--model-overrides", "{{"], "--model-overrides '{': expected a Python dictionary"),
    (["--combine", "learned", "--learned", "{text}"], "not a file of normalign align --learned"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_what_is_refused_leaves_the_old_file(place, tmp_path, options, message):
    (tmp_path / "out").write_text("old")
    (tmp_path / "short").write_text("w1\n")
    files = {"text": place / "text.b", "short": tmp_path / "short"}
    options = [option.format(**files) for option in options]
    check_refused(command(place, *options, output=tmp_path / "out"), message)
    assert (tmp_path / "out").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "short"]


def test_another_command_is_refused_until_restart(place, begun):
    layer = command(place, "--layer", "2", output=begun)
    check_refused(
        layer, "begun with --combine auto, and this run is with --combine none; use the same"
    )
    check_refused(command(place, "--chunk", 11, output=begun), "begun with --chunk 10, and")
    other = command(place, output=begun)
    other[other.index(place / "ab.pt")] = place / "ba.pt"
    check_refused([*other, "-s", "b", "-t", "a"], "was begun with --path ab.pt (")
    run(*layer, "--restart")
    assert '"layer": 2' in Path(f"{begun}.json").read_text()


def test_another_text_is_refused(place, begun, tmp_path):
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    words = command(place, output=begun)
    words[words.index(place / "text.a")] = changed = tmp_path / "changed"
    changed.write_text("".join([*lines[:3], "w1\n", *lines[4:]]))
    check_refused(words, "the first 43 pairs are others than those on which this run was decided")


def test_lines_that_were_done_are_compared(place, tmp_path):
    """Where nothing is to be decided, too."""
    output = tmp_path / "out"
    fixed = ("--layer", "2", "--step", "input")
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    text = tmp_path / "text"
    text.write_text("".join([*lines[:30], "wrong " * 80 + "\n", *lines[31:]]))
    words = command(place, *fixed, output=output)
    words[words.index(place / "text.a")] = text
    check_refused(words, f"(3 finished chunks are kept in {output}.run)")
    text.write_text("".join([*lines[:3], "w1\n", *lines[4:]]))
    check_refused(words, "lines 1 to 10 were done before, of another text; use the same text, or")
    text.write_text("".join(lines))  # the line that was wrong is mended: the run goes on
    run(*words)
    expected = tmp_path / "expected"
    run(*command(place, *fixed, output=expected))
    assert bytes_of(output) == bytes_of(expected)


def test_another_policy_for_long_pairs(place, tmp_path):
    """What failed at a long pair may go on and skip it; what was skipped stays so."""
    text = tmp_path / "text"
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    text.write_text("".join([*lines[:25], "w1 " * 80 + "\n", *lines[26:]]))
    words = command(place, "--layer", 1, "--step", "input", output=tmp_path / "out")
    words[words.index(place / "text.a")] = text
    check_refused(words, "(2 finished chunks are kept in")
    done = run(*words, "--too-long", "skip")
    assert "20 pairs were done before" in done.stderr
    assert (tmp_path / "out").read_text().splitlines()[25] == ""
    _, signature = bytes_of(tmp_path / "out")
    assert signature["too-long"] == "skip"


def test_shards_that_deal_with_long_pairs_in_different_ways(place, tmp_path):
    text = tmp_path / "text"
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    for line in (5, 15):
        lines[line] = "w1 " * 80 + "\n"
    text.write_text("".join(lines))
    words = command(place, "--layer", 1, "--step", "input", output=tmp_path / "out")
    words[words.index(place / "text.a")] = text
    for shard, policy in enumerate(("skip", "truncate")):
        run(*words, "--num-shards", 2, "--shard-id", shard, "--too-long", policy)
    run("normalign", "merge", tmp_path / "out")
    assert bytes_of(tmp_path / "out")[1]["too-long"] == "skip+truncate"


def test_smaller_batches_and_another_word_for_the_processor(place, begun):
    """What does not change the links may differ when a run goes on."""
    words = command(place, "--max-tokens", 100, output=begun)
    words.remove("--cpu")
    assert "20 pairs were done before" in run(*words).stderr


def test_what_another_run_has_learned(place, kind, tmp_path):
    options, both = kind
    options = options or ("--combine", "product")
    learned = tmp_path / "learned"
    first = run(*command(place, *options, "--learned", learned, both=both))
    kept = learned.read_bytes()
    words = command(place, *options, "--learned", learned, both=both)
    for name in ("text.a", "text.b"):  # of other pairs alone, the same is used
        lines = (place / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[10:20]))
        words[words.index(place / name)] = tmp_path / name
    run(*words, "--output", tmp_path / "out")
    again = run(*words)
    assert (tmp_path / "out").read_text() == again.stdout
    assert again.stdout.splitlines() == first.stdout.splitlines()[10:20]
    assert again.stderr.splitlines()[-1] == first.stderr.splitlines()[-1]
    assert learned.read_bytes() == kept


def test_another_learned_file_is_refused_when_a_run_goes_on(place, begun, tmp_path):
    other, ours = tmp_path / "other", tmp_path / "ours"
    few = command(place, "--combine", "product", "--learned", other)
    for name in ("text.a", "text.b"):
        (tmp_path / name).write_text("w1 w2\n")
        few[few.index(place / name)] = tmp_path / name
    run(*few)
    words = command(place, output=begun)
    check_refused(
        [*words, "--learned", other], "other: differs from what this run has learned when it"
    )
    check_refused(
        [*words, "--learned", ours], "ours: no such file, and 43 pairs are too few to learn"
    )


def test_merge_needs_a_run(tmp_path):
    check_refused(["normalign", "merge", tmp_path / "out"], "out.run: no such folder; run the sh")


@pytest.mark.parametrize("ways", ["files", "pipe"])
def test_texts_without_lines_are_refused(place, tmp_path, ways):
    empty = [tmp_path / "a", tmp_path / "b"]
    for path in empty:
        path.touch()
    words = command(place, output=tmp_path / "out")
    for name, path in zip("ab", empty, strict=True):
        words[words.index(place / f"text.{name}")] = path
    options = {}
    if ways == "pipe":
        words[words.index(empty[0])] = "-"
        options = {"input": ""}
    done = run(*words, check=False, **options)
    assert done.returncode == 2
    name = empty[0] if ways == "files" else "<stdin>"
    assert done.stderr == f"normalign align: {name}: has no lines\n"
    assert sorted(tmp_path.iterdir()) == empty


def test_a_run_that_others_could_write_to_is_not_merged(tmp_path):
    folder = RunFolder(tmp_path / "out")
    folder.begin({})
    folder.path.chmod(0o777)
    check_refused(
        ["normalign", "merge", tmp_path / "out"], "out.run: is another user's, or open to oth"
    )
