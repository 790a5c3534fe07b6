import argparse
import collections
import io
import re
import shutil
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.logging import meters
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.pruning import Prunable
from fairseq_normalign.host.checkpoint import convert, load_single, save
from fairseq_normalign.names import all_heads
from tests.conftest import ToyTask, full_disk
from tests.stored import OPTIONS, state, store


@pytest.mark.parametrize("module", ["fairseq.logging.meters", "fairseq.meters"])
def test_args_and_meters_of_fairseq_before_0_10(folder, module, monkeypatch):
    old_meters = collections.OrderedDict()
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter", "SumMeter"):
        monkeypatch.setattr(getattr(meters, name), "__module__", module)
        old_meters[name] = getattr(meters, name)()
    old = state(args=argparse.Namespace(**OPTIONS), extra_state={"train_meters": old_meters})
    torch.save(old, folder / "old.pt")
    model, task = load_single(str(folder / "old.pt"), str(folder))
    assert model.encoder.layers[1].self_attn.num_heads == 4
    assert len(task.source_dictionary) == len(ToyTask().source_dictionary)


def config() -> dict:
    args = argparse.Namespace(**OPTIONS)
    ARCH_CONFIG_REGISTRY["transformer"](args)  # a checkpoint has every option
    groups = {
        "task": {**OPTIONS, "_name": "translation"},
        "model": {**vars(args), "_name": "transformer"},
    }
    return {**groups, "criterion": {"_name": "cross_entropy"}, "lists": [1, 2.5, None, True, "x"]}


@pytest.mark.parametrize("as_nodes", [True, False])
def test_configurations_as_omegaconf_nodes_or_plain(folder, as_nodes):
    cfg = OmegaConf.create(config()) if as_nodes else config()
    torch.save(state(args=None, cfg=cfg), folder / "cfg.pt")
    convert(str(folder / "cfg.pt"), "transformer_normalign", str(folder / "converted.pt"))
    for name, kind in (("cfg", "TransformerModel"), ("converted", "NormalignTransformer")):
        model, _ = load_single(str(folder / f"{name}.pt"), str(folder))
        assert type(model).__name__ == kind
        assert len(model.decoder.layers) == 2


def rename_in_pickle(path, old: bytes, new: bytes) -> int:
    """Changes a module name in a checkpoint's pickle; says how often.

    Another version would have written it so.
    """
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    changed = {
        name: data.replace(old, new) if name.endswith("data.pkl") else data
        for name, data in entries.items()
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in changed.items():
            archive.writestr(name, data)
    return sum(data.count(old) for data in entries.values())


@pytest.mark.parametrize("module", [b"numpy._core.multiarray", b"numpy.core.multiarray"])
def test_counts_of_eval_bleu(folder, module):
    """Arrays and scalars, under the module names of NumPy 2 and of NumPy 1."""
    counts = {
        "counts": np.array([3, 2, 1, 0]),
        "bleu": np.float64(1.5),
        "half": np.array([0.5], dtype=np.float32),
    }
    path = folder / "bleu.pt"
    torch.save(state(args=argparse.Namespace(**OPTIONS), extra_state=counts), path)
    other = b"numpy._core.multiarray" if np.__version__ >= "2" else b"numpy.core.multiarray"
    assert rename_in_pickle(path, other, module) > 0
    model, _ = load_single(str(path), str(folder))
    assert len(model.encoder.layers) == 2


def test_what_is_not_there_is_named(folder):
    with pytest.raises(InputError, match=r"none\.pt: no such checkpoint"):
        load_single("none.pt", str(folder))
    path = store(folder / "ok.pt")
    with pytest.raises(InputError, match=r"nowhere: no such directory; name the one with dict"):
        load_single(path, "nowhere")
    with pytest.raises(InputError, match="names an ensemble"):
        load_single(f"{path}:{path}", str(folder))


READERS = {
    "load": lambda path, folder: load_single(path, str(folder)),
    "convert": lambda path, folder: convert(path, "transformer", str(folder / "out.pt")),
}


@pytest.fixture(params=READERS)
def read(request):
    """Each way to read a checkpoint: a function of its path and the folder of dictionaries."""
    return READERS[request.param]


def write_tar(path):
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("pickle"), io.BytesIO())


GARBAGE = [b"", b"hello world\n", b"PK\x03\x04 no zip", b"\x80\x02" + bytes(range(255, 0, -1))]
NO_CHECKPOINT = "not a checkpoint, or a damaged one; expected a checkpoint that"
BAD_FILES = [
    *((partial(Path.write_bytes, data=content), NO_CHECKPOINT) for content in GARBAGE),
    (partial(torch.jit.save, torch.jit.script(torch.nn.Linear(2, 2))), NO_CHECKPOINT),
    (write_tar, NO_CHECKPOINT),
    (partial(torch.save, [1, 2]), "holds a list; expected a checkpoint that"),
    (partial(torch.save, {"a": torch.ones(1)}), "has no entry .*; expected a checkpoint that"),
    (Path.mkdir, "is a directory; name a checkpoint in it"),
]


@pytest.mark.parametrize(("write", "message"), BAD_FILES)
def test_files_that_are_no_checkpoints(folder, read, write, message, recwarn):
    write(folder / "bad.pt")
    recwarn.clear()
    with pytest.raises(InputError, match=rf"bad\.pt: {message}"):
        read(str(folder / "bad.pt"), folder)
    assert not recwarn.list  # they would be lines of their own


def test_parameters_that_do_not_fit_the_options(folder, read):
    broken = state(args=argparse.Namespace(**OPTIONS))
    parameters = broken["model"]
    del parameters["encoder.layers.0.fc1.bias"]
    parameters["encoder.layers.9.fc1.bias"] = torch.zeros(1)
    torch.save(broken, folder / "misfit.pt")
    message = (
        'Missing key(s) in state_dict: "encoder.layers.0.fc1.bias". '
        'Unexpected key(s) in state_dict: "encoder.layers.9.fc1.bias".'
    )
    with pytest.raises(
        InputError, match=rf"misfit\.pt: does not fit its own .*{re.escape(message)}"
    ):
        read(str(folder / "misfit.pt"), folder)
    assert not (folder / "out.pt").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"encoder_attention_heads": 3}, "embed_dim must be divisible by num_heads"),
        ({"activation_fn": "\x1b[2J\nsomething"}, r"--activation-fn  ?\[2J something"),
    ],
)
def test_options_that_build_no_model(folder, read, options, complaint):
    message = rf"odd\.pt: fairseq cannot load it: .*{complaint}"
    with pytest.raises(InputError, match=message) as raised:
        read(store(folder / "odd.pt", **options), folder)
    assert str(raised.value).isprintable()


def test_dictionaries_of_other_languages_and_of_other_models(folder):
    path, larger = store(folder / "ok.pt"), ToyTask(50).source_dictionary
    for language in "ab":
        larger.save(str(folder / f"dict.{language}.txt"))
    with pytest.raises(InputError, match=r"a dictionary of 34 types, and that in .* has 54"):
        load_single(path, str(folder))
    (folder / "dict.a.txt").unlink()
    with pytest.raises(InputError, match=r"dict\.a\.txt: No such file .*, and .*ok\.pt needs"):
        load_single(path, str(folder))
    (folder / "dict.a.txt").mkdir()
    with pytest.raises(InputError, match=r"dict\.a\.txt: Is a directory"):
        load_single(path, str(folder))


WORDS = "".join(f"w{number} 1\n" for number in range(30)).encode()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"w0 1\nw1 x\n", "Incorrect dictionary format, expected '<token> <cnt> [flags]'"),
        (WORDS + b"w3 1\n", "Duplicate word found when loading Dictionary: 'w3'."),
        ("w0 1\nStraße 2\n".encode("latin-1"), "Incorrect encoding detected"),
    ],
)
def test_dictionaries_that_fairseq_does_not_read(folder, content, problem):
    for language in "ab":
        (folder / f"dict.{language}.txt").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{folder}/dict.a.txt: {problem}")):
        load_single(store(folder / "ok.pt"), str(folder))


def test_a_checkpoint_becomes_the_variants_and_comes_back(folder):
    paths = [store(folder / "ok.pt"), str(folder / "variant.pt"), str(folder / "back.pt")]
    convert(paths[0], "transformer_normalign", paths[1])
    convert(paths[1], "transformer", paths[2])
    models = [load_single(path, str(folder))[0] for path in paths]
    kinds = ["TransformerModel", "NormalignTransformer", "TransformerModel"]
    assert [type(model).__name__ for model in models] == kinds
    for parameters in zip(*(model.parameters() for model in models), strict=True):
        assert all(torch.equal(values, parameters[0]) for values in parameters)


def test_what_cannot_be_converted(folder):
    path = store(folder / "conv.pt", arch="fconv")
    with pytest.raises(InputError, match=r"conv\.pt: its architecture is 'fconv'; expected a kind"):
        convert(path, "transformer", str(folder / "out.pt"))
    with pytest.raises(InputError, match="--arch lstm: not a kind of transformer"):
        convert(path, "lstm", str(folder / "out.pt"))
    assert not (folder / "out.pt").exists()


def test_a_converted_checkpoint_has_all_heads_wherever_it_was_trained(folder):
    """A variant that does not say which heads it has looks for the start of its training."""
    (folder / "train").mkdir()
    prunable = Prunable(store(folder / "full.pt"))
    prunable.write(all_heads(prunable.counts)[1:], str(folder / "train/checkpoint_last.pt"))
    train = {"save_dir": str(folder / "train"), "restore_file": "checkpoint_last.pt"}
    convert(store(folder / "ok.pt", **train), "transformer_normalign", str(folder / "out.pt"))
    model, _ = load_single(str(folder / "out.pt"), str(folder))
    assert model.encoder.layers[0].self_attn.num_heads == 4


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_a_full_disk(folder, size):
    with full_disk(50_000), pytest.raises(InputError, match=r"big\.pt: .*File too large"):
        save({"model": {"x": torch.zeros(size), "y": torch.zeros(9)}}, str(folder / "big.pt"))
    assert not list(folder.glob("*big*"))


def test_a_joint_dictionary_alone_is_of_both_languages(folder):
    path = store(folder / "ok.pt")
    (folder / "dict.a.txt").rename(folder / "dict.txt")
    with pytest.raises(InputError, match=r"dict\.a\.txt: No such file"):
        load_single(path, str(folder))
    (folder / "dict.b.txt").unlink()
    _, task = load_single(path, str(folder))
    assert task.source_dictionary == task.target_dictionary == ToyTask().source_dictionary
    with pytest.raises(FileNotFoundError):  # fairseq itself stays as it is
        type(task).load_dictionary(str(folder / "dict.a.txt"))


def test_languages_the_other_way_round_are_refused(folder):
    """Other names of the same languages are not."""
    for name in ("deu", "eng"):
        shutil.copy(folder / "dict.a.txt", folder / f"dict.{name}.txt")
    load = partial(load_single, store(folder / "ab.pt"), str(folder))
    for languages in ("ba", "bb", "aa"):
        named = dict(zip(("source_lang", "target_lang"), languages, strict=True))
        expected = rf"ab\.pt: translates a-b, not {languages[0]}-{languages[1]}; use its own"
        with pytest.raises(InputError, match=expected):
            load(named)
    load({"source_lang": "a", "target_lang": "b"})
    load({"source_lang": "deu", "target_lang": "eng"})


@pytest.mark.slow
def test_languages_that_nobody_names(corpus, checkpoint, tmp_path):
    """fairseq-train finds them in the binarised data, and does not write them down."""
    for side in ("src", "tgt"):
        shutil.copy(corpus / "data-bin" / f"dict.{side}.txt", tmp_path)
    with pytest.raises(
        InputError, match=r"does not name its languages, .* use --source-lang and --target-lang"
    ):
        load_single(str(checkpoint), str(tmp_path))
    load_single(str(checkpoint), str(tmp_path), {"source_lang": "src", "target_lang": "tgt"})
