"""``normalign import``: a folder in, a folder out, and the command to go on with, which works."""

from __future__ import annotations

import os
import shlex

import pytest

from fairseq_normalign.host.checkpoint import load_single
from tests.conftest import refused, run
from tests.hugging_face import BERT, ROBERTA, make_folder
from tests.imported import write_texts
from tests.translation_folders import CODES, marian_folder, multilingual_folder

TEXTS = {"bert": "the cat sat.\tthe mat\nunaffable cats , a b\n", "roberta": "the ab\tcab\na the\n"}


@pytest.mark.parametrize("config", [BERT, ROBERTA], ids=["BERT", "RoBERTa"])
def test_the_command_that_it_prints_works(config, tmp_path):
    folder = make_folder(tmp_path / "theirs", config)
    done = run("normalign", "import", folder, "-o", tmp_path / "ours")
    kind = config["model_type"]
    assert f"{tmp_path / 'ours'}: {kind}, " in done.stderr
    assert "left out: pooler" in done.stderr
    (command,) = done.stdout.splitlines()
    text = tmp_path / "text"
    text.write_text(TEXTS[kind])
    words = shlex.split(command.replace("TEXT", str(text)))
    masks = ("--mask-share", 0.3, "--categories", "bert-2021", "--cpu")
    mixed = run(*words, *masks)
    assert "encoder self-attention" in mixed.stdout
    header = next(line for line in mixed.stdout.splitlines() if line.startswith("layer"))
    assert header.split() == ["layer", "[MASK]", "[CLS]", "[SEP]", "Normal", "overall"]
    assert "masks:0.3|seed:0" in mixed.stderr


def test_an_adapter_or_the_root_of_a_cache(tmp_path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter/adapter_config.json").write_text("{}")
    message = "no config.json in this folder; it is an adapter (LoRA): merge it with its base model"
    assert message in refused("normalign", "import", tmp_path / "adapter", "-o", tmp_path / "ours")
    model = tmp_path / "cache/snapshots/0123"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    message = f"no config.json in this folder; use the folder in the cache that has one: {model}"
    assert message in refused("normalign", "import", tmp_path / "cache", "-o", tmp_path / "ours")


def aligned(command: str, *more) -> list[list[str]]:
    done = run(*shlex.split(command), "--cpu", *more)
    return [line.split() for line in done.stdout.splitlines()]


def test_the_commands_that_it_prints_for_an_opus_model(tmp_path):
    """Text is split as reading.json says, which is as if options said so."""
    source, target = write_texts(tmp_path, 12)
    marian_folder(tmp_path / "theirs", steps=0)
    ours = tmp_path / "ours"
    done = run("normalign", "import", tmp_path / "theirs", "-o", ours)
    model, _ = load_single(str(ours / "model.pt"), str(ours))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert f"marian, {count:,} parameters, as transformer_normalign" in done.stderr
    command, translate = done.stdout.splitlines()
    assert "-s xx -t yy" in translate
    assert "--beam 4 --lenpen 1 --max-len-a 0 --max-len-b 58 --min-len 0" in translate
    assert "--no-early-stop" in translate
    links = aligned(command.replace("SOURCE", str(source)).replace("TARGET", str(target)))
    assert len(links) == 12
    assert all(links)
    explicit = aligned(
        f"normalign align {ours} --path {ours}/model.pt --bpe sentencepiece "
        f"--source-sentencepiece-model {ours}/source.spm "
        f"--target-sentencepiece-model {ours}/target.spm "
        f"--source-file {source} --target-file {target}"
    )
    assert explicit == links


def test_languages_are_given_by_their_codes(tmp_path):
    source, target = write_texts(tmp_path, 12)
    multilingual_folder(tmp_path / "theirs", "mbart", steps=0)
    done = run("normalign", "import", tmp_path / "theirs", "-o", tmp_path / "ours")
    command, _ = done.stdout.splitlines()
    command = command.replace("SOURCE", str(source)).replace("TARGET", str(target))
    wrong = run(*shlex.split(command), check=False)  # LANG is no language
    assert "no language 'LANG' in the dictionary, which has " in wrong.stderr
    for code in CODES["mbart"]:
        command = command.replace("LANG", code, 1)
    assert len(aligned(command)) == 12
    model = tmp_path / "ours/model.pt"
    none = run("normalign", "align", tmp_path / "ours", "--path", model, check=False)
    assert "a multilingual model needs a source and a target language" in none.stderr


@pytest.mark.slow
def test_a_folder_of_hugging_face_is_a_model(tmp_path):
    """By the installed command, which has not registered our architectures before."""
    source, target = write_texts(tmp_path, 12)
    marian_folder(tmp_path / "theirs", steps=0)
    command = ("normalign", "align", tmp_path / "theirs", source, target, "--cpu")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in ("imported", "cached"):
        done = run(*command, installed=True, env=environment)
        assert len(done.stdout.splitlines()) == 12
