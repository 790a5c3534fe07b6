import pytest
import torch

from fairseq_normalign.cli.main import main
from tests.stored import store


@pytest.fixture
def plain(tmp_path):
    """A folder with a checkpoint of fairseq's Transformer."""
    store(tmp_path / "plain.pt")
    return tmp_path / "plain.pt"


def test_to_the_variant(plain):
    output = plain.with_name("variant.pt")
    assert main(["convert", str(plain), "--arch", "transformer_normalign", "-o", str(output)]) == 0
    assert torch.load(output)["args"].arch == "transformer_normalign"


@pytest.mark.parametrize("task", ["translation", "multilingual_normalign"])
def test_a_task_apart_from_the_model_is_told(task, plain, capsys):
    """As fairseq-hydra-train stores them; the name of the architecture is no name of a task."""
    stored = torch.load(plain, weights_only=False)
    of_model = {**vars(stored["args"]), "_name": "transformer_normalign", "alive_heads": "all"}
    del of_model["task"], of_model["arch"]
    cfg = {"model": of_model, "task": {"_name": task}}
    torch.save({**stored, "args": None, "cfg": cfg}, plain)
    output = str(plain.with_name("out.pt"))
    assert main(["convert", str(plain), "--arch", "transformer", "-o", output]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"{output}: its task is {task}:" if task != "translation" else "")
    assert bool(told) == (task != "translation")


def test_a_decoder_that_begins_otherwise(plain, capsys):
    store(plain, start_with_bos=True)
    output = plain.with_name("out.pt")
    assert main(["convert", str(plain), "--arch", "transformer", "-o", str(output)]) == 2
    message = "plain.pt: its decoder begins with <s>, and that of transformer with </s>"
    assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("output", ["plain.pt", "link.pt"])
def test_outputs_that_are_refused(plain, capsys, output):
    plain.with_name("link.pt").symlink_to(plain)
    before = plain.read_bytes()
    arguments = ["--arch", "transformer_normalign", "-o", str(plain.parent / output)]
    assert main(["convert", str(plain), *arguments]) == 2
    assert f"{output}: would overwrite the input" in capsys.readouterr().err
    assert plain.read_bytes() == before


def test_to_hugging_face(plain, folder, capsys):
    assert main(["convert", str(plain), "--to", "huggingface", "-o", str(folder / "hf")]) == 0
    assert "MarianMTModel" in capsys.readouterr().err
    assert (folder / "hf/model.safetensors").is_file()
    assert main(["convert", str(plain), "--to", "huggingface", "-o", str(folder / "hf")]) == 2
    assert "exists already; pass a new folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "needs one of --arch NAME and --to huggingface"),
        (["--arch", "transformer", "--data", "x"], "--data needs --to"),
    ],
)
def test_where_to(plain, capsys, options, message):
    assert main(["convert", str(plain), *options, "-o", str(plain.with_name("out"))]) == 2
    assert message in capsys.readouterr().err
