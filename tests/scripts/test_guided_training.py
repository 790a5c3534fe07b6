"""The recipe of guided training: its links and commands, and a run on a toy."""

import guided_training
import piece_links
import pytest
import torch

from fairseq_normalign.text.links import LinkFile
from tests.conftest import run


@pytest.fixture
def pieces(tmp_path):
    texts = {
        "train.src": "▁a b ▁c\n▁d\n\n",
        "train.tgt": "▁x ▁y z\n▁w ▁v\n▁u\n",
        "links": "0-1 1-0\n0-1\n\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def written(folder, *options) -> list[str]:
    texts = [folder / name for name in ("train.src", "train.tgt", "links")]
    piece_links.main([str(word) for word in (*texts, "-o", folder / "train.align", *options)])
    return (folder / "train.align").read_text().splitlines()


def test_links_of_pieces_for_rows_that_predict(pieces):
    assert written(pieces) == ["0-1 0-2 1-1 1-2 2-0", "0-1", ""]


def test_what_fairseq_would_pass_over_is_refused(pieces, capsys):
    (pieces / "links").write_text("0-1\n0-1\n")
    with pytest.raises(SystemExit) as ended:
        written(pieces)
    assert ended.value.code == 2
    assert "line counts differ" in capsys.readouterr().err
    assert not (pieces / "train.align").exists()


@pytest.mark.slow
def test_a_model_is_guided_and_its_head_aligns(corpus, checkpoint, tmp_path, capsys):
    out = tmp_path / "guided"
    words = [corpus / "pieces", "-s", "src", "-t", "tgt", "--path", checkpoint, "--out", out]
    words += ["--dict", corpus / "dict.txt", "--max-update", 5, "--step", "input"]
    words += ["--train", "--cpu --max-tokens 500 --log-interval 1"]
    guided_training.main([str(word) for word in words])
    shown = capsys.readouterr().out
    assert "--method weights --layer 2 --head 1 --step input" in shown
    assert len(list(LinkFile(out / "train.pharaoh"))) == 1500
    assert "alignment_loss=" in (out / "train.log").read_text()
    assert guided_training.DROPPED not in (out / "train.log").read_text()
    done = run(
        *("normalign", "align", out / "data-bin", "--path", out / "model/checkpoint_last.pt"),
        *("--gen-subset", "valid", "--method", "weights", "--layer", 2, "--head", 1),
        *("--step", "input", "--remove-bpe", "sentencepiece", "--cpu"),
    )
    assert len(done.stdout.splitlines()) == 40
    before = torch.load(checkpoint, weights_only=True)["model"]
    after = torch.load(out / "model/checkpoint_last.pt", weights_only=True)["model"]
    name = "decoder.layers.1.encoder_attn.q_proj.weight"
    heads = len(before[name]) // 4
    assert before.keys() == after.keys()
    assert not torch.equal(before[name][:heads], after[name][:heads])
