"""What is kept of a run, and what is refused."""

import os
import shutil
import stat

import numpy as np
import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.runs import folder as folder_module
from fairseq_normalign.runs.chunks import Partial, Shard, cut
from fairseq_normalign.runs.folder import RunFolder

COMMAND = {"--layer": 2, "--path": "best.pt (1f)"}
DECISION = {"layer": 1}
CHUNKS = list(cut(["one", "two", "three", "four", "five"], 2, "words"))


def begun(output, command=COMMAND, decision=DECISION, **options):
    folder = RunFolder(output)
    folder.begin(command, **options)
    folder.prepare("words", decision)
    return folder


def keep_all(folder, shard=None):
    shard = shard or Shard()
    for chunk in CHUNKS:
        if shard.has(chunk.number):
            text = "".join(f"{item}!\n" for item in chunk.items)
            folder.keep(chunk, Partial(text=text, notes={"n": 1}))
    folder.finish(shard, {"words": (len(CHUNKS), 5)})


def test_arrays_are_kept_as_they_are(tmp_path):
    folder = begun(tmp_path / "out")
    arrays = {"a.sum": np.arange(6.0).reshape(2, 3), "b.rows": np.zeros((0, 4), np.float32)}
    folder.keep(CHUNKS[0], Partial(arrays, notes={"n": 2}))
    (made,) = folder.partials("words", 1)
    assert made.notes == {"n": 2}
    assert list(made.arrays) == list(arrays)
    for name, array in arrays.items():
        assert made.arrays[name].dtype == array.dtype
        assert np.array_equal(made.arrays[name], array)


def test_what_is_kept_is_there_in_the_next_run(tmp_path):
    folder = begun(tmp_path / "out")
    assert folder.has(CHUNKS[0]) is None
    keep_all(folder)
    again = begun(tmp_path / "out")
    assert [again.has(chunk) for chunk in CHUNKS] == [{"n": 1}] * 3
    assert again.ends() == {"words": 3}
    bodies = [made.text for made in again.partials("words", 3)]
    assert "".join(bodies) == "one!\ntwo!\nthree!\nfour!\nfive!\n"
    again.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({**COMMAND, "--layer": 3}, "was begun with --layer 2, and this run is with --layer 3"),
        ({**COMMAND, "--step": "input"}, "begun without --step, and this run is with --step input"),
        ({"--layer": 2}, r"begun with --path best.pt \(1f\), and this run is without --path"),
    ],
)
def test_another_command_is_refused_by_what_differs(tmp_path, other, message):
    begun(tmp_path / "out")
    with pytest.raises(InputError, match=message):
        begun(tmp_path / "out", other)
    begun(tmp_path / "out", other, restart=True)


def test_who_decides_first_decides_for_all(tmp_path):
    first = begun(tmp_path / "out")
    second = RunFolder(tmp_path / "out")
    second.begin(COMMAND)
    assert second.prepare("words", {"layer": 5}) == DECISION
    assert first.prepared("words") == DECISION


def test_another_text_is_refused(tmp_path):
    folder = begun(tmp_path / "out")
    keep_all(folder)
    with pytest.raises(InputError, match="lines 3 to 4 were done before, of another text"):
        folder.has(CHUNKS[1]._replace(items=["three", "for"]))


@pytest.mark.parametrize(
    "damage",
    [
        *(
            lambda chunk, text=text: text
            for text in (b"", b"{", b'{"body": 1}\n', b"[]\n", b"\xff\n")
        ),
        lambda chunk: chunk[:-3],
        lambda chunk: chunk.replace(b'"chunk": 1', b'"chunk": 3'),  # a bit in what tells of it
        lambda chunk: chunk.replace(b'"n": 1', b'"n": 0'),
    ],
)
def test_a_damaged_chunk_is_not_done(tmp_path, damage):
    folder = begun(tmp_path / "out")
    keep_all(folder)
    path = folder.path / "chunk-words-0000001"
    path.write_bytes(damage(path.read_bytes()))
    assert folder.has(CHUNKS[1]) is None
    with pytest.raises(InputError, match="chunk-words-0000001: is missing or damaged"):
        list(folder.partials("words", 2))
    with pytest.raises(
        InputError, match="1 of 3 chunks are missing or damaged, those of --shard-id 0"
    ):
        folder.ends()


def test_missing_and_foreign_chunks_are_named(tmp_path):
    folder = begun(tmp_path / "out")
    with pytest.raises(InputError, match="no shard has come to its end"):
        folder.ends()
    keep_all(folder, Shard(0, 2))
    with pytest.raises(
        InputError, match="1 of 3 chunks are missing or damaged, those of --shard-id 1"
    ):
        folder.ends()
    other = begun(tmp_path / "other", decision={"layer": 2})
    keep_all(other)
    foreign = folder.path / "chunk-words-0000001"
    foreign.write_bytes((other.path / "chunk-words-0000001").read_bytes())
    with pytest.raises(InputError, match="chunk-words-0000001: is a chunk of another run"):
        list(folder.partials("words", 2))
    foreign.unlink()
    (folder.path / "shard-0-of-2.json").write_bytes((other.path / "shard-0-of-1.json").read_bytes())
    with pytest.raises(InputError, match=r"shard-0-of-2.json: is of another run"):
        folder.ends()


@pytest.mark.parametrize("name", ["run.json", "prepared-words.json", "shard-0-of-1.json"])
@pytest.mark.parametrize(
    "damage", ["", '{"digest": 1, "words": ["x", "3", 5]}', '{\n "version": "0.2.0"\n}']
)
def test_any_other_file_that_is_damaged_is_one_line(tmp_path, name, damage):
    folder = begun(tmp_path / "out")
    keep_all(folder)
    (folder.path / name).write_text(damage)
    with pytest.raises(InputError, match=f"{name}: is damaged, or of another version; .* --rest"):
        RunFolder(tmp_path / "out").ends()
    begun(tmp_path / "out", restart=True)


def test_what_is_copied_from_other_machines(tmp_path):
    (tmp_path / "there").mkdir()
    here, there = begun(tmp_path / "out"), begun(tmp_path / "there" / "out")
    keep_all(here, Shard(0, 2))
    keep_all(there, Shard(1, 2))
    shutil.copytree(there.path, here.path, dirs_exist_ok=True)
    assert here.ends() == {"words": 3}
    stranger = begun(tmp_path / "there" / "stranger", decision={"layer": 3})
    keep_all(stranger)
    shutil.copytree(stranger.path, here.path, dirs_exist_ok=True)
    with pytest.raises(InputError, match="different texts"):
        RunFolder(tmp_path / "out").ends()


def test_two_runs_of_one_shard(tmp_path):
    folder = begun(tmp_path / "out")
    other = RunFolder(tmp_path / "out")
    with folder.alone(Shard(1, 2)):
        with (
            pytest.raises(InputError, match="shard-1-of-2: another run is writing it"),
            other.alone(Shard(1, 2)),
        ):
            pass
        with other.alone(Shard(0, 2)):
            pass
        with pytest.raises(InputError, match="shard-1-of-2 is still running"):
            other.begin(COMMAND, restart=True)
        assert other.leave() == 0
        assert folder.path.exists()  # others work there
    assert other.leave() == 0
    assert not folder.path.exists()


def test_nobody_else_may_read_it(tmp_path):
    folder = begun(tmp_path / "out")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_a_folder_of_somebody_else_is_not_touched(tmp_path):
    (tmp_path / "out.run").mkdir(0o700)
    begun(tmp_path / "out").remove()
    (tmp_path / "out.run").mkdir()
    (tmp_path / "out.run" / "thesis.tex").write_text("precious")
    for restart in (False, True):
        with pytest.raises(InputError, match="not a normalign run directory"):
            begun(tmp_path / "out", restart=restart)
    assert (tmp_path / "out.run" / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o701])
def test_a_folder_that_is_open_to_others_is_refused(tmp_path, mode):
    folder = begun(tmp_path / "out")
    keep_all(folder)
    folder.path.chmod(mode)
    for restart in (False, True):
        with pytest.raises(
            InputError, match=r"out\.run: is another user's, or open to others; rem"
        ):
            begun(tmp_path / "out", restart=restart)
    assert folder.ends() == {"words": 3}
    folder.path.chmod(0o2700)  # a folder of a group hands this bit on
    assert begun(tmp_path / "out").ends() == {"words": 3}


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    begun(tmp_path / "out")
    monkeypatch.setattr(folder_module, "_is_private", lambda path: path.name != "out.run")
    with pytest.raises(InputError, match=r"out\.run: is another user's, or open to others"):
        begun(tmp_path / "out")
    monkeypatch.undo()
    if os.geteuid() == 0:
        os.chown(tmp_path / "out.run", 12345, 12345)
        with pytest.raises(InputError, match=r"out\.run: is another user's, or open to others"):
            begun(tmp_path / "out")
