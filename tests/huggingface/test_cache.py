"""Hugging Face folders in the place of a checkpoint."""

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface import conversion as cache
from tests.hugging_face import BERT, make_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_folder(tmp_path / "bert", BERT)


def test_a_folder_is_imported_once(folder, monkeypatch):
    checkpoint = cache.cached_import(str(folder))
    assert checkpoint.is_file()
    assert (checkpoint.parent / "dict.txt").is_file()
    monkeypatch.setattr(cache, "import_folder", None)  # not called again
    assert cache.cached_import(str(folder)) == checkpoint


def test_other_contents_are_another_model(folder):
    before = cache.digest(folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace("{", "{ ", 1))
    assert cache.digest(folder) != before


def test_the_import_of_another_process_counts(folder, monkeypatch):
    def lost(path, output):
        imported(path, output)
        raise InputError(f"{output}: is there already; expected the name of a new folder")

    imported = cache.import_folder
    monkeypatch.setattr(cache, "import_folder", lost)
    assert cache.cached_import(str(folder)).is_file()


def test_a_link_that_leads_nowhere(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("gone")
    with pytest.raises(InputError, match=r"no weights \(model.* is the download complete"):
        cache.cached_import(str(folder))


def test_a_damaged_folder_leaves_nothing(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError):
        cache.cached_import(str(folder))
    assert not list((tmp_path / "cache/normalign").iterdir())
