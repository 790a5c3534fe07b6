"""Checkpoints that would run code: one of each kind is planted, and none may leave a trace."""

import argparse
import ast
import os
import shutil
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import fairseq
import numpy as np
import omegaconf
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions.ctc import CtcCriterion, CtcCriterionConfig
from fairseq.data import Dictionary
from fairseq.data.fasta_dataset import FastaDataset
from fairseq.models import ARCH_CONFIG_REGISTRY
from safetensors.torch import save_file

from fairseq_normalign.cli.main import main
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.pruning import Prunable
from fairseq_normalign.host.checkpoint import convert, load_single
from fairseq_normalign.host.inert import StoredArray, StoredDtype, evaluate
from fairseq_normalign.host.trust import read_safetensors, unpickle
from tests.stored import OPTIONS as STORED

multiarray = sys.modules[np.array([]).__reduce__()[0].__module__]
OPTIONS = {
    **STORED,
    "criterion": "adaptive_loss",  # with which more is evaluated
    "lang_pairs": "a-b",
    "share_all_embeddings": False,
    "user_dir": None,
    "pretrained_checkpoint": "",
    "tokens_per_sample": 64,
}
LAYERS = {  # of architectures that do not take any number
    "fconv": {"encoder_layers": "[(16, 3)]", "decoder_layers": "[(16, 3)]"},
    "lightconv": {
        "encoder_layers": 7,
        "decoder_layers": 6,
        "encoder_conv_type": "lightweight",
        "decoder_conv_type": "lightweight",
        "weight_softmax": True,
        "attention_dropout": 0.0,
    },
}


@pytest.fixture
def folder(folder):
    shutil.copy(folder / "dict.a.txt", folder / "dict.txt")
    for language in "ab":
        (folder / f"text.{language}").write_text("w1 w2\n")
    return folder


@pytest.fixture
def trace(folder):
    """What is there as soon as any code has run."""
    yield folder / "ran"
    assert not (folder / "ran").exists()


def code(trace: Path, value: str = "None") -> str:
    return f"open({str(trace)!r}, 'w') and {value}"


def plant(path: Path, arch: str, *, form: str = "cfg", **options) -> str:
    """A checkpoint without parameters: enough for what happens before they are loaded."""
    layers = LAYERS.get(arch.split("_")[0], {})
    args = argparse.Namespace(**{**OPTIONS, **layers, "arch": arch, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    history = [{"criterion_name": "X", "num_updates": 1, "optimizer_name": "X"}]
    history[0]["lr_scheduler_state"] = {}
    state = {"model": {}, "optimizer_history": history, "extra_state": {}, "args": args}
    if form == "cfg":
        args._name = arch
        common = {"user_dir": args.user_dir}
        task = {**OPTIONS, "task": args.task, "_name": args.task}
        state["cfg"] = {"model": args, "task": task, "common": common, "criterion": None}
        state["args"] = None
    torch.save(state, path)
    return str(path)


PLANTED = [
    ("fconv", "encoder_layers"),
    ("fconv", "decoder_layers"),
    ("fconv", "decoder_attention"),
    ("fconv_self_att", "pretrained"),
    ("fconv_self_att", "downsample"),
    ("lstm", "decoder_attention"),
    ("lstm", "adaptive_softmax_cutoff"),
    ("lightconv", "adaptive_softmax_cutoff"),
    ("transformer", "adaptive_softmax_cutoff"),
    ("transformer", "xformers_att_config"),
    ("transformer_align", "adaptive_softmax_cutoff"),
    ("transformer_normalign", "xformers_att_config"),
    ("nonautoregressive_transformer", "xformers_att_config"),
]
LANGUAGE_MODELS = [
    ("transformer_lm", "character_filters", {"character_embeddings": True}),
    ("transformer_lm", "adaptive_input_cutoff", {"adaptive_input": True}),
    ("lightconv_lm", "character_filters", {"character_embeddings": True}),
    ("fconv_lm", "decoder_layers", {}),
    ("lstm_lm", "adaptive_softmax_cutoff", {}),
]
LANGUAGE = {"task": "language_modeling"}
SEVERAL = {"task": "multilingual_translation"}


@pytest.mark.parametrize(
    ("arch", "option", "form", "more"),
    [
        *[(*planted, form, {}) for planted in PLANTED for form in ("args", "cfg")],
        *[(arch, option, "cfg", {**LANGUAGE, **more}) for arch, option, more in LANGUAGE_MODELS],
        ("multilingual_transformer", "left_pad_source", "args", SEVERAL),  # of a task
    ],
)
def test_options_run_nothing(folder, trace, arch, option, form, more):
    path = plant(folder / "bad.pt", arch, form=form, **{option: code(trace)}, **more)
    with pytest.raises(InputError, match=r"bad\.pt: refused to load: an option is "):
        load_single(path, str(folder))


def test_options_of_criteria_run_nothing(folder, trace):
    """``fairseq-validate`` builds the criterion of a checkpoint."""
    task = argparse.Namespace(target_dictionary=Dictionary())
    with pytest.raises(InputError, match="which fairseq would run as Python"):
        CtcCriterion(CtcCriterionConfig(wer_args=code(trace)), task)


def test_a_checkpoint_that_names_another_runs_nothing(folder, trace):
    """fconv_self_att loads the model that --pretrained-checkpoint names, with its options."""
    inner = plant(folder / "inner.pt", "fconv", encoder_layers=code(trace))
    outer = plant(
        folder / "outer.pt", "fconv_self_att", pretrained="True", pretrained_checkpoint=inner
    )
    with pytest.raises(InputError, match=r"inner\.pt: refused to load"):
        load_single(outer, str(folder))


class Called:
    """Is stored as a call."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def folder_made(trace: Path) -> Called:
    return Called(os.mkdir, (str(trace),))


RAW = struct.pack("P", id(None))  # bytes that NumPy may be made to take for a Python object


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        (np.array([{}]), "numpy.object"),
        (np.zeros(1, [("a", "i8")]), "numpy.void"),
        (np.array(["text"]), "numpy.str"),
        (Called(np.ndarray, ((1,), "O", RAW)), "numpy.ndarray"),
        (Called(multiarray.scalar, (np.dtype("O"), RAW)), "numpy.object"),
        (
            Called(
                multiarray._reconstruct,
                (np.ndarray, (0,), b"b"),
                (
                    1,
                    (1,),
                    Called(np.dtype, ("O", False, True), (3, "|", *[None] * 3, 8, 8, 0)),
                    False,
                    RAW,
                ),
            ),
            "numpy.object",
        ),
    ],
)
def test_arrays_of_anything_but_numbers_are_refused(folder, stored, found):
    torch.save({"model": {}, "args": stored}, folder / "bad.pt")
    with pytest.raises(InputError, match=rf"bad\.pt: refused to load: it holds '{found}"):
        load_single(str(folder / "bad.pt"), str(folder))


def test_an_array_that_a_tensor_looks_at_keeps_its_numbers():
    """A second state would free them."""
    state = (1, (2,), StoredDtype("i8"), False, bytes(16))
    array = StoredArray(StoredArray)
    array.__setstate__(state)
    with pytest.raises(ValueError, match="two states"):
        array.__setstate__(state)


@pytest.mark.parametrize(
    "stored",
    [
        *(
            np.arange(6).reshape(2, 3).astype(code)
            for code in ("<i8", ">i4", "<f8", "f4", "f2", "?")
        ),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(1.5),
        np.float64(1.5),
        np.int32(7),
    ],
)
def test_arrays_of_numbers_are_read_and_stored_again(folder, stored):
    path = str(folder / "x.pt")
    torch.save({"array": stored}, path)
    torch.save(unpickle(path), path)
    assert b"fairseq_normalign" not in Path(path).read_bytes()  # but NumPy's own names
    read = unpickle(path)["array"]
    np.testing.assert_array_equal(read, stored)
    assert read.dtype == stored.dtype.newbyteorder("=")


@pytest.mark.parametrize("form", ["args", "cfg", "nodes"])
def test_options_read_nothing_from_the_environment(folder, monkeypatch, form):
    monkeypatch.setenv("OUTSIDE", "value")
    outside = "prefix/${oc.env:OUTSIDE}"
    if form == "nodes":
        path = str(folder / "bad.pt")
        cfg = omegaconf.OmegaConf.create({"task": {"data": outside}})
        torch.save({"model": {}, "args": None, "cfg": cfg}, path)
    else:
        path = plant(folder / "bad.pt", "transformer", form=form, alignment_heads=outside)
    message = r"bad\.pt: refused to load: an option is 'prefix/\$\{oc.env:OUTSIDE\}', which reads "
    for load in (lambda: load_single(path, str(folder)), lambda: Prunable(path)):
        with pytest.raises(InputError, match=message):
            load()
    with pytest.raises(InputError, match=message):
        checkpoint_utils.load_checkpoint_to_cpu(path)


@pytest.mark.parametrize(
    "options",
    [
        {"arch": "fconv_self_att", "pretrained": "True", "pretrained_checkpoint": "PATH"},
        {"arch": "transformer_normalign", "alive_heads": "PATH"},
    ],
)
def test_pickles_that_options_name_run_nothing(folder, trace, options):
    inner = folder / "inner.pt"
    torch.save({"model": {}, "args": folder_made(trace)}, inner)
    named = {name: str(inner) if value == "PATH" else value for name, value in options.items()}
    path = plant(folder / "outer.pt", **named)
    with pytest.raises(InputError, match=r"inner\.pt: refused to load: it holds .*mkdir"):
        load_single(path, str(folder))


@pytest.mark.parametrize(
    ("function", "name"), [(os.system, "posix.system"), (eval, "eval"), (os.mkdir, "posix.mkdir")]
)
def test_what_would_run_code_is_refused_by_name(folder, trace, function, name):
    argument = {os.system: f"touch {trace}", eval: code(trace), os.mkdir: str(trace)}[function]
    path = plant(folder / "bad.pt", "transformer")
    torch.save({**torch.load(path), "extra_state": {"x": Called(function, (argument,))}}, path)
    message = rf"bad\.pt: refused to load: it holds '.*{name}.*', which could run code"
    with pytest.raises(InputError, match=message):
        load_single(path, str(folder))


def test_pickles_run_nothing_even_if_pytorch_is_told_to_trust_them(folder, trace, monkeypatch):
    """People set this variable for fairseq's old checkpoints."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save({"model": {}, "args": folder_made(trace)}, folder / "bad.pt")
    for load in (
        lambda path: load_single(path, str(folder)),
        lambda path: convert(path, "transformer", f"{path}.out"),
        checkpoint_utils.load_checkpoint_to_cpu,  # as fairseq-train does
    ):
        with pytest.raises(InputError, match=r"bad\.pt: refused to load: it holds .*mkdir"):
            load(str(folder / "bad.pt"))


def test_files_that_fairseq_loads_itself_run_nothing(folder, trace, monkeypatch):
    """Whose names are options, and which do not come through ``load_checkpoint_to_cpu``."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save({"cfg": folder_made(trace)}, folder / "inner.pt")
    inner = {"load_pretrained_decoder_from": str(folder / "inner.pt"), "arch": "xm_transformer"}
    path = plant(folder / "outer.pt", "transformer")
    state = torch.load(path)
    vars(state["cfg"]["model"]).update(inner, _name="xm_transformer")
    torch.save(state, path)
    message = r"outer\.pt: refused to load: it names a file that holds .*mkdir"
    with pytest.raises(InputError, match=message):
        load_single(path, str(folder))
    with pytest.raises(InputError, match=message):
        checkpoint_utils.load_model_ensemble_and_task([path], {"data": str(folder)})


@pytest.mark.parametrize(
    "command", ["align", "reverse", "evaluate", "heads", "export", "plot", "convert", "prune"]
)
def test_commands_run_nothing(folder, trace, capsys, command):
    path = plant(folder / "bad.pt", "transformer", xformers_att_config=code(trace))
    texts = ["--source-file", f"{folder}/text.a", "--target-file", f"{folder}/text.b", "--cpu"]
    output = ["-o", f"{folder}/out.npz"]
    both = ["--reverse-path", path, "--combine", "mean"]
    arguments = {
        "align": ["align", str(folder), "--path", path, *texts],
        "reverse": ["align", str(folder), "--path", good(folder), *texts, *both],
        "evaluate": ["evaluate", str(folder), "--path", path, *texts],
        "heads": ["heads", str(folder), "--path", path, *texts],
        "export": ["export", str(folder), "--path", path, *texts, *output],
        "plot": ["plot", str(folder), "--path", path, *texts, "-o", f"{folder}/out.png"],
        "convert": ["convert", path, "--arch", "transformer", "-o", f"{folder}/out.pt"],
        "prune": ["prune", "--path", path, "--keep", "all", "--out", f"{folder}/out.pt"],
    }[command]
    assert main(arguments) == 2
    assert "bad.pt: refused to load: an option is" in capsys.readouterr().err
    assert not list(folder.glob("out.*"))


def good(folder: Path) -> str:
    """A model of the other direction, with nothing wrong."""
    path = plant(folder / "good.pt", "transformer")
    state = torch.load(path)
    sizes = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    vars(state["cfg"]["model"]).update(sizes)
    dictionary = Dictionary.load(f"{folder}/dict.a.txt")
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = fairseq.models.build_model(state["cfg"]["model"], task)
    torch.save({**state, "model": model.state_dict()}, path)
    return path


def test_the_one_of_an_ensemble_is_named(folder, trace):
    paths = [good(folder), plant(folder / "bad.pt", "fconv", encoder_layers=code(trace))]
    with pytest.raises(InputError, match=r"^\S*/bad\.pt: refused to load: an option"):
        checkpoint_utils.load_model_ensemble_and_task(paths, {"data": str(folder)})


def test_a_plugin_that_a_checkpoint_names_is_not_imported(folder, trace):
    plugin = folder / "planted_plugin"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(f"open({str(trace)!r}, 'w')")
    path = plant(folder / "bad.pt", "transformer", user_dir=str(plugin))
    with pytest.raises(InputError, match="does not fit its own options"):
        load_single(path, str(folder))


def test_overrides_are_the_users_own(folder, trace):
    path = plant(folder / "bad.pt", "fconv", encoder_layers=code(trace))
    with pytest.raises(InputError, match="does not fit its own options"):
        load_single(path, str(folder), {"encoder_layers": "[(16, 3)]"})


def calls_eval(file: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes in their strings
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "eval" for function in calls)


def test_every_module_of_fairseq_that_evaluates_is_guarded():
    evaluating = []
    for module in list(sys.modules.values()):
        name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
        if name.startswith("fairseq.") and file and file.endswith(".py") and calls_eval(file):
            assert module.eval is evaluate, name
            evaluating.append(name)
    assert {"fairseq.utils", "fairseq.models.fconv"} <= set(evaluating)
    assert len(evaluating) >= 15


def test_a_module_that_comes_later_is_guarded_too(folder, monkeypatch):
    """Such as one of fairseq's examples, named with --user-dir."""
    later = type(sys)("fairseq_example")
    later.__file__ = str(Path(fairseq.__file__).parent / "examples" / "x.py")
    monkeypatch.setitem(sys.modules, later.__name__, later)
    with pytest.raises(InputError):
        load_single(plant(folder / "bad.pt", "fconv", encoder_layers="f()"), str(folder))
    assert later.eval is evaluate


def test_names_of_fasta_files_are_quoted(folder, trace, monkeypatch):
    """They hold the languages that a checkpoint names, and go through a shell."""
    prefix = folder / f"test.a-b.a;touch {trace.name};"
    Path(f"{prefix}.fasta").write_text(">one\nAB\n>two\nC\n")
    monkeypatch.chdir(folder)
    assert FastaDataset(str(prefix)).sizes.tolist() == [2, 1]


def test_fairseq_loads_models_from_python_once_the_plugin_is_imported(folder, trace):
    """In a process of its own, whose torch.load is PyTorch's, as docs/python.md has it."""
    torch.save({"model": {}, "args": folder_made(trace)}, folder / "bad.pt")
    code = """if True:
        import sys
        import fairseq_normalign.plugin
        from fairseq import checkpoint_utils
        for path in sys.argv[1:]:
            models, *_ = checkpoint_utils.load_model_ensemble_and_task([path], {"data": "."})
            print(type(models[0]).__name__)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, good(folder), "bad.pt"],
        cwd=folder,
        env={**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "TransformerModel\n", done.stderr
    assert "bad.pt: refused to load: it holds" in done.stderr


@pytest.mark.parametrize("option", ["arch", "task", "criterion"])
def test_what_another_plugin_has_is_named(folder, option):
    path = plant(folder / "other.pt", "transformer", form="args")
    state = torch.load(path)
    setattr(state["args"], option, "theirs")
    torch.save(state, path)
    with pytest.raises(
        InputError, match=r"other\.pt: has no entry 'theirs'; .* or --user-dir with"
    ):
        load_single(path, str(folder))


def tensors() -> dict[str, torch.Tensor]:
    return {
        "matrix": torch.arange(6.0).reshape(2, 3),
        "half": torch.tensor([0.1, -2.0]).half(),
        "brain": torch.tensor([0.1, 3e38]).bfloat16(),
        "scalar": torch.tensor(7.5),
        "none": torch.zeros(0, 4),
    }


def test_what_was_written_is_read(tmp_path):
    save_file(tensors(), tmp_path / "file", {"from": "ä"})
    read, metadata = read_safetensors(tmp_path / "file")
    assert metadata == {"from": "ä"}
    assert read.keys() == tensors().keys()
    for name, values in tensors().items():
        torch.testing.assert_close(read[name], values, atol=0, rtol=0)
        assert read[name].dtype == values.dtype


def test_what_is_missing_or_cut_off_is_refused(tmp_path):
    save_file(tensors(), tmp_path / "cut")
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-1])
    for name in ("none", "cut"):
        with pytest.raises(InputError, match=f"{name}: .*; pass a whole safetensors file"):
            read_safetensors(tmp_path / name)
