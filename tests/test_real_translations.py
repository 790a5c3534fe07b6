"""Translations of a real model by its folder of Hugging Face, ours and those of transformers."""

import shutil
from itertools import islice

import pytest

from fairseq_normalign.files import read_lines
from fairseq_normalign.host.translate import Translator
from fairseq_normalign.huggingface.export import export_folder
from tests.hugging_face import of_transformers
from tests.imported import Both, generated_by

SENTENCES = 200
LIMITS = {"beam": 4, "lenpen": 1.0, "max_len_a": 0, "max_len_b": 1022, "min_len": 0}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def both(data, tmp_path_factory):
    checkpoint = data.parent / "checkpoints/deen.pt"
    if not checkpoint.exists():
        pytest.skip(f"{checkpoint} is missing")
    folder = tmp_path_factory.mktemp("real")
    shutil.copy(data / "deen/spm.model", folder)
    for language in ("de", "en"):
        shutil.copy(checkpoint.with_name("dict.txt"), folder / f"dict.{language}.txt")
    export_folder(str(checkpoint), str(folder), str(folder / "theirs"))
    theirs = of_transformers("MarianMTModel").from_pretrained(folder / "theirs").eval()
    return Both(theirs, folder / "theirs")


def test_two_hundred_sentences(both, data):
    lines = list(islice(read_lines(data / "deen/test.de"), SENTENCES))
    pairs = [both.reader.pair(line, None, "line 1") for line in lines]
    sources = [pair.source.tokens.tolist() for pair in pairs]  # the numbers are fairseq's
    expected = [generated_by(both.theirs, [source])[0] for source in sources]
    same = {}
    for patient in (True, False):
        search = {**LIMITS, "no_early_stop": patient}
        found = Translator(both.model, both.reader, search)(pairs)
        same[patient] = sum(map(list.__eq__, found, expected))
    assert same == {True: 200, False: pytest.approx(187, abs=3)}
