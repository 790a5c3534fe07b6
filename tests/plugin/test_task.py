import inspect

import pytest
from fairseq import options, tasks
from fairseq.data.data_utils import batch_by_size

import fairseq_normalign.plugin  # noqa: F401  (registers)

pytestmark = pytest.mark.slow


def sentences(name: str, corpus, monkeypatch) -> int:
    """How many sentences of the test set come out in batches, as fairseq-generate asks for them."""
    monkeypatch.setattr("sys.argv", ["fairseq-generate"])
    argv = [str(corpus / "data-bin"), "--task", name, "-s", "src", "-t", "tgt"]
    task = tasks.setup_task(options.parse_args_and_arch(options.get_generation_parser(), argv))
    task.load_dataset("test")
    epochs = task.get_batch_iterator(
        task.dataset("test"), max_tokens=150, required_batch_size_multiple=8
    )
    return sum(batch["nsentences"] for batch in epochs.next_epoch_itr(shuffle=False))


def test_all_sentences_are_translated(corpus, monkeypatch):
    assert sentences("translation_normalign", corpus, monkeypatch) == 40
    # What the task mends in fairseq; 0.12.2 does not have it.
    if "b = b[:-1]" in inspect.getsource(batch_by_size):
        assert sentences("translation", corpus, monkeypatch) < 40
