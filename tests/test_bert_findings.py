"""The recipe of BERT: its own script on what our commands measured of a small model."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.conftest import ROOT, run
from tests.hugging_face import BERT, make_folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The JSON of both commands, as the recipe calls them, in a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("a model")
    run("normalign", "import", make_folder(folder / "theirs", BERT), "-o", folder / "model")
    text = "the cat sat .\ton the mat\na cat , a mat\tunaffable\nb a c\tthe cats .\n"
    (folder / "text").write_text(text)
    reading = (
        *(folder / "model", "--path", folder / "model/model.pt", "--cpu"),
        *("--bpe", "bert", "--bpe-vocab-file", folder / "model/vocab.txt"),
        *("--attention", "encoder", "--source-file", folder / "text"),
    )
    masks = ("--mask-share", 0.12, "--categories", "bert-2021")
    run("normalign", "mixing", *reading, *masks, "-o", folder / "mixing.json")
    by_token = ("--categories", "bert-2020", "--mixing")
    run("normalign", "stats", *reading, *by_token, "-o", folder / "stats.json")
    return folder


def findings():
    place = ROOT / "scripts" / "bert_findings.py"
    spec = importlib.util.spec_from_file_location("bert_findings", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_findings_are_shown(measured, capsys):
    findings().main(str(measured / "mixing.json"), str(measured / "stats.json"))
    shown = capsys.readouterr().out
    assert re.search(r"^\[CLS\] and \[SEP\] are 2\d\.\d% of the tokens", shown)
    assert re.search(r"^less by norm than by weight: \d of 2 layers$", shown, re.MULTILINE)
    assert re.search(r"^ATTN-W +\d+\.\d +96\.4$", shown, re.MULTILINE)
    assert re.search(r"^in the published order: (yes|no)$", shown, re.MULTILINE)
    assert re.search(
        r"^ATTNRES-N +[+-]\d\.\d\d +-0\.84 +[+-]\d\.\d\d +-0\.86$", shown, re.MULTILINE
    )
    rows = re.findall(r"^ +\d+(?: +\d+){5,10}$", shown, re.MULTILINE)
    assert len(rows) == 12  # BERT-base has as many layers
