"""The marks of each kind of task, against what the task's own data set feeds to a model."""

from __future__ import annotations

import pytest
import torch
from fairseq import options, tasks

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.special_tokens import special_tokens_of

pytestmark = pytest.mark.slow

TASKS = {
    "translation": [],
    "multilingual_translation": ["--lang-pairs", "src-tgt"],
    "multilingual_translation, source": ["--lang-pairs", "src-tgt", "--encoder-langtok", "src"],
    "multilingual_translation, both": [
        *("--lang-pairs", "src-tgt", "--encoder-langtok", "tgt", "--decoder-langtok")
    ],
    "translation_multi_simple_epoch": ["--lang-pairs", "src-tgt"],
    "translation_multi_simple_epoch, source": [
        *("--lang-pairs", "src-tgt", "--encoder-langtok", "tgt")
    ],
    "translation_multi_simple_epoch, both": [
        *("--lang-pairs", "src-tgt", "--encoder-langtok", "src", "--decoder-langtok")
    ],
    "translation_multi_simple_epoch, replacing": [
        *("--lang-pairs", "src-tgt", "--encoder-langtok", "src", "--decoder-langtok"),
        "--lang-tok-replacing-bos-eos",
    ],
    "translation_from_pretrained_bart": ["--langs", "src,tgt,xx"],
    "translation_from_pretrained_bart, bos": ["--langs", "src,tgt,xx", "--prepend-bos"],
}


def build_task(name: str, data, monkeypatch):
    argv = [str(data), "--task", name.partition(",")[0], "-s", "src", "-t", "tgt", *TASKS[name]]
    monkeypatch.setattr("sys.argv", ["fairseq-generate"])
    return tasks.setup_task(options.parse_args_and_arch(options.get_generation_parser(), argv))


def own_inputs(task, count: int) -> list[dict]:
    """What the task itself feeds to a model for the first pairs of the test set.

    One at a time, so without padding.
    """
    if hasattr(task, "data_manager"):
        [(_, dataset)], _ = task.data_manager.load_split_datasets("test", training=False)
    else:
        task.load_dataset("test")
        dataset = getattr(task.dataset("test"), "datasets", {}).get("src-tgt", task.dataset("test"))
    return [dataset.collater([dataset[index]])["net_input"] for index in range(count)]


@pytest.mark.parametrize("name", TASKS)
def test_marks_are_those_of_the_task(name, corpus, monkeypatch):
    task = build_task(name, corpus / "data-bin", monkeypatch)
    reader = PairReader(task, scheme="sentencepiece")
    pairs = list(binarised_pairs("test", reader))
    assert len(pairs) == 40
    for own, pair in zip(own_inputs(task, 5), pairs[:5], strict=True):
        assert own["src_tokens"][0].tolist() == pair.source.tokens.tolist()
        start = torch.tensor([reader.marks.start])
        assert (
            own["prev_output_tokens"][0].tolist()
            == torch.cat([start, pair.target.tokens[:-1]]).tolist()
        )
        assert len(pair.source.words) == len(pair.source.tokens)


def test_a_multilingual_model_needs_languages(corpus, monkeypatch):
    task = build_task("multilingual_translation", corpus / "data-bin", monkeypatch)
    task.args.source_lang = None
    with pytest.raises(
        InputError,
        match="found source_lang None, target_lang tgt; expected --source-lang and --target-lang "
        "of one of: src-tgt",
    ):
        special_tokens_of(task)
