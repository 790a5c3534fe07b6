"""``normalign evolution`` on tiny random models, in process."""

from argparse import Namespace

import pytest
import torch

from fairseq_normalign.results.result import read_result
from tests.conftest import build_model, refused, run
from tests.layers.test_evolution import lines, toy_task
from tests.stored import OPTIONS, state, store

LANGUAGE = {
    "arch": "transformer_lm_big",
    "task": "language_modeling",
    "decoder_input_dim": 16,
    "decoder_output_dim": 16,
    "tokens_per_sample": 64,
    "max_target_positions": 64,
    "data": "elsewhere",
    "criterion": "cross_entropy",
    "output_dictionary_size": -1,
}
SMALL = [
    *("--types", 6, "--occurrences", 20, "--tokens", 160, "--groups", 2),
    *("--limit", 150, "--cpu"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Dictionaries, a text, a translation model and a language model."""
    folder = tmp_path_factory.mktemp("evolution")
    for name in ("dict.a.txt", "dict.b.txt", "dict.txt"):
        toy_task().source_dictionary.save(str(folder / name))
    (folder / "text").write_text("\n".join(lines()) + "\n")
    store(folder / "translation.pt")
    store_language_model(folder / "language.pt")
    return folder


def store_language_model(path) -> None:
    sizes = {name: LANGUAGE[name] for name in ("decoder_input_dim", "decoder_output_dim")}
    model = build_model("transformer_lm_big", tokens_per_sample=64, **sizes)
    decoder = {name: value for name, value in OPTIONS.items() if name.startswith("decoder")}
    stored = state(args=Namespace(**decoder, **LANGUAGE))
    torch.save({**stored, "model": model.state_dict()}, path)


def command(folder, *options, paths=("translation.pt",)) -> list:
    checkpoints = [folder / path for path in paths]
    text = ["--source-file", folder / "text", *SMALL]
    return ["normalign", "evolution", folder, "--path", *checkpoints, *text, *options]


def test_two_models(folder, tmp_path):
    options = ["-o", tmp_path / "x.json", "--plot", tmp_path / "x.png"]
    options += ["--words", "w1", "w2", "w3", "--plot-words", tmp_path / "w.pdf"]
    done = run(*command(folder, *options, paths=("translation.pt", "language.pt")))
    tables = done.stdout.split("\n\n")
    assert [table.splitlines()[0] for table in tables[:2]] == [
        "translation.pt, encoder",
        "language.pt, decoder",
    ]
    heading = ["layer", "identity", "left", "right", "position", "information", "shuffled"]
    assert tables[0].splitlines()[1].split()[:7] == heading
    assert [line.split()[0] for line in tables[0].splitlines()[2:]] == ["random", "0", "1", "2"]
    assert tables[2].startswith("translation.pt: change by frequency")
    assert tables[3].startswith("translation.pt: influence by the frequency of the hidden token")
    assert "translation.pt – language.pt" in tables[6]
    assert "at most 1.79" in tables[7]
    written = read_result(tmp_path / "x.json")
    assert len(written.tables()["language.pt, decoder"].rows) == 4
    assert len(written.tables()["translation.pt – language.pt: distances"].rows) == 3
    assert written.signature["influence-on"] == "later"
    assert written.signature["seed"] == 1
    assert "checkpoints:translation.pt,language.pt|parts:encoder,decoder|" in done.stderr
    assert "sentences:150|types:6|occurrences:20|neighbours:10-cosine|clusters:12|" in done.stderr
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "w.pdf").read_bytes().startswith(b"%PDF")


def test_the_decoder_of_a_translation_model(folder):
    options = ["--target-file", folder / "text", "--part", "decoder", "--no-influence"]
    done = run(*command(folder, *options))
    assert done.stdout.startswith("translation.pt, decoder\n")
    assert ": influence" not in done.stdout


REFUSED = {
    "--part encoder": (
        ["language.pt"],
        "TransformerLanguageModel has no encoder self-attention; it has decoder self-attention",
    ),
    "--part decoder": (
        ["translation.pt"],
        "{folder}/text:1: not a line 'source ||| target'; if this file has sources alone, name",
    ),
    "--words w1 zz --plot-words {folder}/w.png": (
        ["translation.pt"],
        "--words: 'zz' comes 0 times in the text; 2 are needed",
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_in_one_line(words, folder):
    paths, message = REFUSED[words]
    options = words.format(folder=folder).split()
    line = refused(*command(folder, *options, paths=paths))
    assert line.startswith(f"normalign evolution: {message.format(folder=folder)}")
    assert not (folder / "w.png").exists()
