"""The files of a model: from MODEL, as users name it, to checkpoint, dictionaries and pieces.

MODEL is a checkpoint, a folder with one, or a folder of Hugging Face. Imports no PyTorch: what is
missing is said before anything loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.text_doctor import Vocabulary

USUAL = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")  # the first that is there
HUGGING_FACE = "config.json"
# Files that split text into pieces, as fairseq's models are published with them. {} is a language.
# By their marks: the option that names a file, files for both languages, and for one.
FILES = {
    "sentencepiece": (
        "sentencepiece_model",
        ("sentencepiece.bpe.model", "spm.model", "*.model"),
        ("spm.{}.model", "{}.spm.model", "{}.model", "{}.spm"),
    ),
    "subword_nmt": (
        "bpe_codes",
        ("bpecodes", "bpe.codes", "codes", "code"),
        ("bpe.{}.codes", "codes.{}", "bpecodes.{}", "{}.bpecodes", "{}.codes"),
    ),
}
GPT2 = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
Languages = Callable[[], tuple[str | None, str | None]]  # of source and target; asks the checkpoint
SAMPLE = 5000  # lines of a dictionary that tell its marks
MOSTLY = 0.9


def find_checkpoint(model: str) -> Path | None:
    """The checkpoint that MODEL names; None if MODEL is a folder of Hugging Face."""
    path = Path(model)
    if path.is_file():
        if _is_text(path):
            raise InputError(
                f"{model}: a text, not a checkpoint; MODEL comes before SOURCE, TARGET"
            )
        return path
    if not path.is_dir():
        raise InputError(f"{model}: no such file or folder{_how_to_download(model)}")
    for name in USUAL:
        if (path / name).is_file():
            return path / name
    checkpoints = sorted(found.name for found in path.glob("*.pt"))
    if len(checkpoints) > 1:
        names = ", ".join(checkpoints)
        raise InputError(f"{model}: has several checkpoints: {names}; name one of them")
    if checkpoints:
        return path / checkpoints[0]
    if (path / HUGGING_FACE).is_file():
        return None
    raise InputError(f"{model}: no checkpoint (*.pt) and no {HUGGING_FACE} in this folder")


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:  # a checkpoint is a ZIP file or a pickle
        line = file.readline(1000)
    return line.endswith(b"\n") and b"\0" not in line and not line.startswith(b"\x80")


def _how_to_download(model: str) -> str:
    """Advice for a name such as ``Helsinki-NLP/opus-mt-de-en``."""
    looks_like_hub = model.count("/") == 1 and not model.startswith((".", "/", "~"))
    if not looks_like_hub or Path(model).parent.exists():
        return ""
    folder = model.partition("/")[2]
    return f"; to download it from the Hugging Face Hub: hf download {model} --local-dir {folder}"


def find_data(checkpoint: Path, trained_on: str | None = None) -> Path | None:
    """The folder of dictionaries: the checkpoint's own, else the one that it was trained on."""
    for folder in [str(checkpoint.parent), *(trained_on or "").split(":")]:
        if folder and dictionaries(Path(folder)):
            return Path(folder)
    return None


def dictionaries(folder: Path) -> list[Path]:
    return sorted([*folder.glob("dict.txt"), *folder.glob("dict.*.txt")])


def find_pieces(folders: Iterable[Path], dictionary: Path, languages: Languages) -> dict[str, str]:
    """The options of BPE that the files of a model and the marks of its dictionary tell.

    Args:
        folders: where the files may be; the first that has them counts.
        languages: called if there are files for single languages.
    """
    scheme = marks_of(dictionary)
    for folder in folders:
        found = _gpt2_files(folder) if scheme == "gpt2" else _files(folder, scheme, languages)
        if found and scheme == "subword_nmt":
            scheme = kind_of_codes(next(iter(found.values())))
        if found:
            return {"bpe": scheme, **found}
    return {}


def marks_of(dictionary: Path) -> str:
    """How the pieces of a dictionary are marked; 'none' if they are words."""
    with dictionary.open(encoding="utf-8", errors="replace") as lines:
        pieces = [line.rpartition(" ")[0] for line in islice(lines, SAMPLE)]
    numbers = sum(piece.isascii() and piece.isdigit() for piece in pieces)
    if numbers > MOSTLY * len(pieces):
        return "gpt2"
    return Vocabulary(dict.fromkeys(pieces, 1)).scheme


def _gpt2_files(folder: Path) -> dict[str, str]:
    """The vocabulary and the merges of GPT-2's BPE, whose pieces are numbers in dictionaries."""
    for names in GPT2:
        vocabulary, merges = (folder / name for name in names)
        if vocabulary.is_file() and merges.is_file():
            return {"gpt2_encoder_json": str(vocabulary), "gpt2_vocab_bpe": str(merges)}
    return {}


def _files(folder: Path, scheme: str, languages: Languages) -> dict[str, str]:
    """A file for both languages or one for each, by the options that name them."""
    option, common, of_each = FILES.get(scheme, ("", (), ()))
    for pattern in of_each:
        if len(list(folder.glob(pattern.format("*")))) < 2:
            continue
        pair = [folder / pattern.format(language) for language in languages()]
        if all(path.is_file() for path in pair):
            sides = ("source", "target")
            return {f"{side}_{option}": str(path) for side, path in zip(sides, pair, strict=True)}
    for pattern in common:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            flag = "--" + option.replace("_", "-")
            raise InputError(
                f"{folder}: which of {names} splits text into pieces? name it by {flag}"
            )
        if found:
            return {option: str(found[0])}
    return {}


def kind_of_codes(path: str) -> str:
    """subword-nmt's codes are pairs behind a line with their version; fastBPE's have counts."""
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        first = next(lines, "")
    return "fastbpe" if len(first.split()) == 3 and first.split()[2].isdigit() else "subword_nmt"
