"""Every parser of what users give, each with files that it takes.

A target reads a file. It gives a result, or it raises InputError; anything else is a defect.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import io
import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fairseq_normalign.alignment.bitext import count_bitext
from fairseq_normalign.alignment.combine import LinkModel
from fairseq_normalign.alignment.decision import Decision, learned_text, read_learned
from fairseq_normalign.alignment.learned import CLUES, Example, LearnedLinks
from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.attention.extract import check_extract
from fairseq_normalign.attention.lrp_rules import rule_set
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.heads.relevance_log import read_log
from fairseq_normalign.heads.role_comparison import compared
from fairseq_normalign.host.inert import evaluate
from fairseq_normalign.results.blocks import Table
from fairseq_normalign.results.export import open_export
from fairseq_normalign.results.result import StoredResult
from fairseq_normalign.text.frequencies import read_frequencies
from fairseq_normalign.text.links import GoldFile, LinkFile
from fairseq_normalign.text.paired import read_printed
from fairseq_normalign.text.treebank import read_conllu
from fairseq_normalign.text.words import TextFile, normalise_bpe_name
from tests.conftest import ToyTask, run
from tests.stored import store, write_binarised


class Target(NamedTuple):
    """A parser, and what it is given."""

    name: str
    file: str  # the name of the file that it reads
    wholes: Sequence[bytes]  # files that it takes
    read: Callable[[Path], Any]


# ---------------------------------------------------------------- text, and links


PRINTED = b"S-1\tc d\nT-1\tx\nH-1\t-0.5\te f\nP-1\t-1 -2\nS-0\ta b\nH-0\t-0.1\tg\nGenerate\n"


# ---------------------------------------------------------------- treebanks


def row(number: str, form: str, head: str, relation: str = "dep") -> str:
    return "\t".join([number, form, "_", "NOUN", "_", "_", head, relation, "_", "_"])


TREES = "\n".join(
    [
        "# sent_id = 1",
        row("1", "Zur", "2"),
        row("2", "Zeit", "3"),
        row("3", "geht", "0", "root"),
        row("3.1", "er", "_"),
        "",
        row("1-2", "zum", "_", "_"),
        row("1", "zu", "3"),
        row("2", "dem", "3"),
        row("3", "New York", "0", "root"),
        "",
    ]
).encode()


# ---------------------------------------------------------------- JSON of our own


SIGNATURE = json.dumps({"signature": {"method": "norms", "layer": 2}, "size": 0}).encode()


def read_signature(path: Path) -> Any:
    alignment = path.with_suffix("")
    alignment.touch()
    return made_with(alignment)


HEAD = {"gate": 1.0, "open": 0.75, "relevance": 0.5}
LOG = "".join(
    json.dumps(
        {
            "updates": updates,
            "sentences": 9,
            "rules": "voita",
            "heads": {"encoder.1.1": HEAD, "cross.2.12": {**HEAD, "gate": 0.0}},
        }
    )
    + "\n"
    for updates in (0, 50, 100)
).encode()


ROLES = json.dumps(
    StoredResult(
        "heads",
        "Attention heads",
        [
            Table(["head"], [["encoder.1.1"], ["cross.1.2"]], name="heads"),
            Table(["head", "function", "role"], [["encoder.1.1", "rare", "r"]], name="roles"),
        ],
        signature={"checkpoint": "a.pt", "positional": 0.9, "margin": "relative", "rare": 0.5},
    ).json(),
    indent=1,
).encode()


def read_roles(path: Path) -> str:
    return compared([str(path)], ["encoder"]).text()


# ---------------------------------------------------------------- arrays and tensors


def exported() -> bytes:
    from fairseq_normalign.results.export import create_export

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.npz"
        with create_export(path, {"axes": ["target", "source"]}) as export:
            for place in range(2):
                export.add(place, np.ones((2, 3), np.float32), ["a", "b", "</s>"], ["</s>", "c"])
        return path.read_bytes()


def read_export(path: Path) -> int:
    with open_export(path) as export:
        if len(export) > 1000:
            return len(export)
        return sum(item.array.size + len(item.source) for item in export)


def learned() -> bytes:
    lexicon = Lexicon()
    lexicon.add(["a", "b"], ["c", "d"], np.array([[0.9, 0.1], [0.2, 0.8]]))
    links = LinkModel(np.array([0.5, 1.0]), -0.5)
    bitext = count_bitext([(["a", "b"], ["c", "d"]), (["a"], ["c"])])
    model = LearnedLinks(links, np.zeros(2), np.full(len(CLUES), 0.5), lexicon, -4.0, bitext)
    evidences = [Evidence("norms", layer) for layer in range(2)]
    decision = Decision("learned", evidences, model, 100, 0.5)
    return learned_text(decision, ["0123"], {"method": "norms"}).encode()


def read_learned_file(path: Path) -> Any:
    model = read_learned(path)[0].model
    if model is None:
        return None
    shares = [np.full((2, 2), 0.5)] * len(model.link_weights)
    return model(Example(["a", "b"], ["c", "d"], shares)).shape


def safetensors() -> bytes:
    from safetensors.torch import save

    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2], dtype=torch.int16)}
    return save(tensors, {"format": "pt"})


def read_tensors(path: Path) -> Any:
    from fairseq_normalign.host.trust import read_safetensors

    return len(read_safetensors(path)[0])


def aligner() -> bytes:
    from fairseq_normalign.attention.trained_head import AlignmentHead, TrainedHead, write_aligner

    head = AlignmentHead.random(6, 4, width=3, generator=torch.Generator().manual_seed(1))
    with tempfile.TemporaryDirectory() as folder:
        write_aligner(f"{folder}/x", {"forward": TrainedHead(head, "0123", "a-b")}, {"seed": 1})
        return Path(folder, "x").read_bytes()


def read_aligner(path: Path) -> Any:
    from fairseq_normalign.attention import trained_head

    return len(trained_head._read.__wrapped__(str(path), 0))


# ---------------------------------------------------------------- models and their data


@functools.cache
def checkpoint(*, seed: int = 1, **options: Any) -> bytes:
    stored = io.BytesIO()
    store(stored, seed=seed, **options)
    return stored.getvalue()


def dictionary() -> bytes:
    return b"".join(b"w%d 1\n" % number for number in range(30))


def load(path: Path, folder: Path) -> Any:
    from fairseq_normalign.host.checkpoint import load_single

    model, _ = load_single(str(path), str(folder))
    return sum(parameter.numel() for parameter in model.parameters())


def read_checkpoint(path: Path) -> Any:
    for language in "ab":
        path.with_name(f"dict.{language}.txt").write_bytes(dictionary())
    return load(path, path.parent)


def read_dictionary(path: Path) -> Any:
    shutil.copy(path, path.with_name("dict.b.txt"))
    path.with_name("model.pt").write_bytes(checkpoint())
    return load(path.with_name("model.pt"), path.parent)


def binarised() -> list[bytes]:
    """Index and tokens of a side in one, with the length of the index before it."""
    lines = ["w1 w2", "w3", "", "w4 w5 w6"]
    with tempfile.TemporaryDirectory() as folder:
        write_binarised(Path(folder, "x"), lines, ToyTask().source_dictionary)
        index, tokens = Path(folder, "x.idx").read_bytes(), Path(folder, "x.bin").read_bytes()
    return [struct.pack("<H", len(index)) + index + tokens]


def read_binarised(path: Path) -> Any:
    from fairseq_normalign.host.binarised import binarised_pairs
    from fairseq_normalign.host.pairs import PairReader

    content = path.read_bytes()
    (length,) = struct.unpack("<H", content[:2].ljust(2, b"\0"))
    task = ToyTask()
    task.args.data, task.args.source_lang = str(path.parent), None
    (path.parent / "test.idx").write_bytes(content[2 : 2 + length])
    (path.parent / "test.bin").write_bytes(content[2 + length :])
    return len(list(binarised_pairs("test", PairReader(task))))


# ---------------------------------------------------------------- segmentation


def reader(bpe: str, option: str) -> Callable[[Path], Any]:
    """Splits a line by a file that an option names."""
    from fairseq_normalign.host.segmentation import Segmentation, build_bpes

    def read(path: Path) -> Any:
        args = argparse.Namespace(bpe=bpe, post_process=None, tokenizer=None, **{option: str(path)})
        source, _ = build_bpes(args)
        return Segmentation(source, normalise_bpe_name(bpe))("the cats sat", "line 1").words

    return read


@functools.cache
def sentencepiece() -> bytes:
    from tests.made_up_text import model_of

    return model_of(("de",), vocab_size=60)


CODES = b"#version: 0.2\nt h\nth e</w>\ns a\n"
WORDPIECES = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "sat", "s", "##a"])


def read_reading(path: Path) -> Any:
    from fairseq_normalign.host.segmentation import apply_reading

    args = argparse.Namespace()
    apply_reading(args, path.parent)
    return vars(args)


# ---------------------------------------------------------------- imported models


@functools.cache
def bert_folder() -> dict[str, bytes]:
    from tests import hugging_face

    with tempfile.TemporaryDirectory() as folder:
        made = hugging_face.make_folder(Path(folder) / "bert", hugging_face.BERT)
        return {path.name: path.read_bytes() for path in made.iterdir()}


def import_with(path: Path) -> Any:
    """Imports a folder one of whose files is the one at hand."""
    from fairseq_normalign.huggingface.conversion import import_folder

    folder = path.parent / "folder"
    folder.mkdir()
    for name, content in bert_folder().items():
        (folder / name).write_bytes(content)
    shutil.copy(path, folder / path.name)
    return import_folder(str(folder), str(path.parent / "imported")).title


# ---------------------------------------------------------------- runs that were divided


@functools.cache
def run_folder() -> dict[str, bytes]:
    """What two shards leave for ``normalign merge``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder)
        for shard in range(2):
            line = (
                f"align {name}/data --path {name}/model.pt --cpu --layer 2 --step input -q".split()
            )
            line += ["--source-file", f"{name}/text.a", "--target-file", f"{name}/text.b"]
            line += ["-o", f"{name}/out", "--num-shards", "2", "--shard-id", str(shard)]
            assert run("normalign", *line).returncode == 0
        return {path.name: path.read_bytes() for path in (folder / "out.run").iterdir()}


def write_corpus(folder: Path) -> None:
    """Dictionaries, a model, and a text of 20 pairs."""
    (folder / "data").mkdir()
    for language in "ab":
        (folder / "data" / f"dict.{language}.txt").write_bytes(dictionary())
    (folder / "model.pt").write_bytes(checkpoint())
    (folder / "text.a").write_text("w1 w2 w3\n\nw4\nw5 w6 w1 w1\n" * 5)
    (folder / "text.b").write_text("w7 w8\nw9\nw2\nw1 w3 w4 w5 w6\n" * 5)


def merge_with(path: Path) -> Any:
    """Merges a run one of whose files is the one at hand."""
    from fairseq_normalign.cli import merge

    folder = path.parent / "out.run"
    folder.mkdir(0o700)
    for name, content in run_folder().items():
        (folder / name).write_bytes(content)
    shutil.copy(path, folder / path.name)
    merge.main(merge.parse_args(["-q", str(path.parent / "out")]))
    merged = [set(links) for links in LinkFile(path.parent / "out", format="pharaoh")]
    assert len(merged) == 20


@functools.cache
def written() -> tuple[bytes, ...]:
    """JSON of other commands, which reports show."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder)
        (folder / "gold").write_text("0-0 1p1\n\n0-0\n0-1 1-1 2p2\n" * 5)
        (folder / "links").write_text("0-0\n\n0-0\n0-1 1-1 2-2\n" * 5)
        corpus = f"{name}/data --path {name}/model.pt --cpu -q".split()
        corpus += ["--source-file", f"{name}/text.a", "--target-file", f"{name}/text.b"]
        scores = run("normalign", "aer", folder / "gold", "-i", folder / "links", "-f", "json")
        table = ["--gold", folder / "gold", "-o", folder / "table"]
        run("normalign", "methods", *corpus, *table)
        contents = [scores.stdout.encode(), (folder / "table").read_bytes(), LOG]
        for command in ("heads", "mixing", "stats", "evaluate"):
            run("normalign", command, *corpus, "-o", folder / command)
            contents.append((folder / command).read_bytes())
    return tuple(contents)


def read_report(path: Path) -> Any:
    from fairseq_normalign.cli.report import read_included

    return len(read_included([str(path)]))


# ---------------------------------------------------------------- all of them

LINKS = [b"0-0 1-2 3-1\n\n2-2:0.93 0-1:1e-3\n", b"1-1\r\n2-3 3-2\r\n"]
GOLD = [b"0-0 1p2 3-1\n\n2p2 2-2\n"]
NAACL_LINKS = [b"1 1 1 S\n1 2 3 P 0.5\n3 1 2\n", b"0001 0 1\n2 2 2 S\n"]
TEXTS = ["der Hund\u00a0bellt .\n\nja\n".encode(), b"a b\r\nc\r\n"]


def compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def read_text(path: Path) -> list[list[str]]:
    return list(TextFile(path))


LIGHT = [
    Target("links", "links.txt", [*LINKS, *NAACL_LINKS], lambda path: list(LinkFile(path))),
    Target("gold", "gold.talp", GOLD, lambda path: list(GoldFile(path))),
    Target("text", "text.de", TEXTS, read_text),
    Target("gzip", "text.gz", [compressed(content) for content in TEXTS], read_text),
    Target("hypotheses", "generated.txt", [PRINTED, TEXTS[0]], read_printed),
    Target("frequencies", "counts.txt", [b"a 10\nb 2.5\nc 0\n"], read_frequencies),
    Target("treebank", "trees.conllu", [TREES], lambda path: list(read_conllu(path))),
    Target("signature", "links.pharaoh.json", [SIGNATURE], read_signature),
    Target("gate log", "relevance.jsonl", [LOG], lambda path: list(read_log(path))),
    Target("heads", "heads.json", [ROLES], read_roles),
    Target("export", "export.npz", [exported()], read_export),
    Target("learned file", "deen.learned", [learned()], read_learned_file),
    Target("safetensors", "model.safetensors", [safetensors()], read_tensors),
    Target("aligner", "aligner.safetensors", [aligner()], read_aligner),
    Target("index", "index", binarised(), read_binarised),
    Target("BPE codes", "codes", [CODES], reader("subword_nmt", "bpe_codes")),
    Target("fastBPE codes", "codes", [b"t h 10\nth e</w> 4\n"], reader("fastbpe", "bpe_codes")),
    Target("word pieces", "vocab.txt", [WORDPIECES.encode()], reader("bert", "bpe_vocab_file")),
    Target("reading", "reading.json", [b'{"bpe": "sentencepiece"}'], read_reading),
]


def heavy() -> list[Target]:
    """Those that take milliseconds by the dozen."""
    folder = bert_folder()
    imports = [
        Target(f"import {name}", name, [content], import_with) for name, content in folder.items()
    ]
    runs = [
        Target(f"run {name}", name, [content], merge_with) for name, content in run_folder().items()
    ]
    return [
        Target("checkpoint", "model.pt", [checkpoint()], read_checkpoint),
        Target("dictionary", "dict.a.txt", [dictionary()], read_dictionary),
        Target(
            "SentencePiece",
            "spm.model",
            [sentencepiece()],
            reader("sentencepiece", "sentencepiece_model"),
        ),
        *imports,
        *runs,
        Target("report", "heads.json", written(), read_report),
    ]


# ---------------------------------------------------------------- words of the command line


class Spec(NamedTuple):
    """A parser of words, and words that it takes."""

    name: str
    wholes: Sequence[str]
    read: Callable[[str], Any]


def read_heads(text: str) -> Any:
    from fairseq_normalign.names import all_heads, parse_heads

    counts = {(kind, layer): 12 for kind in ("encoder", "decoder", "cross") for layer in range(12)}
    return parse_heads(text, all_heads(counts))


def read_evidence(text: str) -> Any:
    from fairseq_normalign.alignment.evidence import parse_evidences

    return parse_evidences([text])


EVIDENCES = ["norms.1.input", "reverse:norms.3.2.output*0.5", "lrp:1e-3.output", "links:a.txt"]
METHODS = ["norms", "lrp:1e-3", "smoothgrad:30", "weights", "aligner:x"]
SPECS = [
    Spec("method", METHODS, method_of),
    Spec("evidence", EVIDENCES, read_evidence),
    Spec("extract", ["argmax", "threshold:0.3", "grow:1e-1", "piece-argmax"], check_extract),
    Spec("heads", ["encoder.1.3,cross.2.12", "all", "none", "decoder.1.1 "], read_heads),
    Spec("LRP rules", ["voita", "epsilon:1e-3", "attnlrp"], rule_set),
    Spec("literal", ["[(512, 3)] * 4 + [1]", "{'a': 1.5}", "(0.9, 0.98)"], evaluate),
]
