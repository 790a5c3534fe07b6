"""fairseq's own commands with ``--user-dir``: train, resume, fine-tune, translate, validate."""

import re
import shutil

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble

import fairseq_normalign.plugin  # noqa: F401  (lets torch.load read checkpoints)
from fairseq_normalign import open_export
from tests.conftest import PACKAGE, TRAIN, run
from tests.host.test_trust import folder_made
from tests.plugin.test_exporting import assert_same_items

pytestmark = pytest.mark.slow


def updates(folder) -> int:
    state = torch.load(folder / "checkpoint_last.pt")
    return state["optimizer_history"][-1]["num_updates"]


def train(corpus, folder, *options):
    return run(*TRAIN, corpus / "data-bin", "--user-dir", PACKAGE, "--save-dir", folder, *options)


def test_training_resumes(corpus, checkpoint, tmp_path):
    shutil.copy(checkpoint, tmp_path)
    log = train(corpus, tmp_path, "--max-update", 33).stdout
    assert re.search(r"Loaded checkpoint .* @ 30 updates", log)
    assert updates(tmp_path) == 33


def test_fine_tuning_a_plain_checkpoint_with_the_variant_and_back(corpus, tmp_path):
    plain, variant, back = (tmp_path / name for name in ("plain", "variant", "back"))
    sizes = [
        *("--encoder-layers", 2, "--decoder-layers", 1, "--encoder-attention-heads", 2),
        *("--decoder-attention-heads", 2, "--decoder-normalize-before"),
    ]
    sizes += ["--encoder-embed-dim", 64, "--encoder-ffn-embed-dim", 96]
    plain_model = ["--arch", "transformer", *sizes, "--max-update", 2]
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 5}', "--max-update", 2]
    train(corpus, plain, *plain_model)
    # With --eval-bleu and validation, the checkpoint holds arrays.
    command = [word for word in TRAIN if word != "--disable-validation"]
    tuned = [corpus / "data-bin", "--user-dir", PACKAGE, "--save-dir", variant, *bleu]
    run(*command, *tuned, "--finetune-from-model", plain / "checkpoint_last.pt")
    train(corpus, back, *plain_model, "--finetune-from-model", variant / "checkpoint_last.pt")
    assert updates(variant) == updates(back) == 2
    state = torch.load(variant / "checkpoint_last.pt")  # arrays of --eval-bleu included
    assert "_bleu_counts" in str(state["extra_state"]["metrics"])
    assert state["cfg"]["model"]._name == "transformer_normalign_tiny"


def test_interactive(corpus, checkpoint):
    options = ["--path", checkpoint, "--user-dir", PACKAGE, "--beam", 2, "--cpu", "--max-len-b", 10]
    options += ["--bpe", "sentencepiece", "--sentencepiece-model", corpus / "spm.model"]
    text = "".join((corpus / "test.src").open().readlines()[:2])
    lines = run(
        "fairseq-interactive", corpus / "data-bin", *options, input=text
    ).stdout.splitlines()
    assert sum(line.startswith("H-") for line in lines) == 2


def test_a_converted_checkpoint_needs_no_plugin(corpus, checkpoint, tmp_path):
    """With the plugin only for loading it safely.

    The model is fairseq's own and translates the same.
    """
    run("normalign", "convert", checkpoint, "--arch", "transformer", "-o", tmp_path / "plain.pt")
    assert torch.load(tmp_path / "plain.pt")["cfg"]["model"]._name == "transformer"
    command = [
        "fairseq-generate",
        corpus / "data-bin",
        *("--user-dir", PACKAGE, "--cpu", "--max-len-b", 10, "--path"),
    ]
    outputs = [run(*command, path).stdout for path in (checkpoint, tmp_path / "plain.pt")]
    translations = [
        [line for line in output.splitlines() if line.startswith("H-")] for output in outputs
    ]
    assert translations[0] == translations[1]
    assert len(translations[0]) == 40


def export_options(corpus, checkpoint, file) -> list:
    return [
        *(corpus / "data-bin", "--path", checkpoint, "--user-dir", PACKAGE, "--cpu"),
        *("--task", "translation_normalign", "--max-tokens", 300, "--export-attention", file),
    ]


def test_generate_exports_vectors(corpus, checkpoint, tmp_path):
    """For every hypothesis: with b_O, they add up to the output of the attention."""
    log = run(
        "fairseq-generate",
        *export_options(corpus, checkpoint, tmp_path / "x.npz"),
        *("--export-quantity", "vectors", "--export-layers", 2, "--beam", 3, "--max-len-b", 8),
        *("--print-alignment", "hard", "--align-layer", 2),
    ).stdout
    assert len(re.findall("^A-", log, re.M)) == 40
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", log, re.M))
    (model,), _ = load_model_ensemble([str(checkpoint)])
    attention = model.eval().decoder.layers[1].encoder_attn
    outputs = []
    attention.register_forward_hook(lambda module, args, output: outputs.append(output[0]))
    with torch.no_grad(), open_export(tmp_path / "x.npz") as export:
        assert export.metadata["checkpoint"] == checkpoint.name
        for sentence, item in enumerate(export):
            assert " ".join(item.target[1:]) == hypotheses[str(sentence)]
            model(
                tokens(model.encoder.dictionary, item.source),
                torch.tensor([len(item.source)]),
                tokens(model.decoder.dictionary, item.target),
            )
            rebuilt = torch.from_numpy(item.array[0].sum(1)) + attention.out_proj.bias
            torch.testing.assert_close(rebuilt, outputs.pop()[:, 0], rtol=0, atol=1e-5)


def tokens(dictionary, symbols) -> torch.Tensor:
    return torch.tensor([[dictionary.index(symbol) for symbol in symbols]])


def test_validate_exports_references(corpus, checkpoint, tmp_path):
    """Of a checkpoint whose own task is fairseq's; they are those of ``normalign export``."""
    assert torch.load(checkpoint)["cfg"]["task"]["_name"] == "translation"
    command = ["fairseq-validate", *export_options(corpus, checkpoint, tmp_path / "x.npz")]
    run(*command, "--valid-subset", "test", "--export-quantity", "head-norms")
    run(
        *("normalign", "export", corpus / "data-bin", "--path", checkpoint, "--cpu"),
        *("--quantity", "head-norms", "-o", tmp_path / "ours.npz"),
    )
    with open_export(tmp_path / "x.npz") as export, open_export(tmp_path / "ours.npz") as ours:
        told = export.metadata
        assert (told["targets"], told["subset"]) == ("references", "test")
        assert_same_items(export, ours)
    again = run(*command, "--valid-subset", "test,valid", check=False)
    assert again.returncode == 2
    assert again.stderr.endswith("--export-attention exports one subset; several are named\n")


@pytest.fixture
def planted(checkpoint, tmp_path):
    """Checkpoints that would leave a trace: one by its pickle, one by an option."""
    state = torch.load(checkpoint)
    state["extra_state"]["planted"] = folder_made(tmp_path / "ran")
    torch.save(state, tmp_path / "pickle.pt")
    state["extra_state"].pop("planted")
    state["cfg"]["model"].adaptive_softmax_cutoff = f"open({str(tmp_path / 'ran')!r}, 'w') and [9]"
    torch.save(state, tmp_path / "option.pt")
    return tmp_path


@pytest.mark.parametrize("command", ["fairseq-generate", "fairseq-interactive"])
def test_planted_checkpoints_run_nothing_where_they_translate(corpus, planted, command):
    for name in ("pickle", "option"):
        done = run(
            *(command, corpus / "data-bin", "--path", planted / f"{name}.pt", "--cpu"),
            *("--user-dir", PACKAGE),
            input="a\n",
            env={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},  # as people set it for old checkpoints
            check=False,
        )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert re.search(rf"^{command}: .*{name}\.pt: refused to load: .*\n\Z", done.stderr, re.M)
        assert not (planted / "ran").exists()


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_planted_checkpoints_run_nothing_where_training_starts(corpus, planted, option):
    folder = planted / "save"
    common = [*TRAIN, corpus / "data-bin", "--user-dir", PACKAGE, "--save-dir", folder]
    done = run(*common, option, planted / "pickle.pt", "--max-update", 31, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert re.search(r"^fairseq-train: .*pickle\.pt: refused to load: .*\n\Z", done.stderr, re.M)
    # A resumed training takes the parameters and leaves the options; fine-tuning takes sizes.
    resumes = option == "--restore-file"
    done = run(*common, option, planted / "option.pt", "--max-update", 31, check=resumes)
    assert resumes or "which fairseq would run as Python" in done.stderr
    assert not (planted / "ran").exists()
