"""README and docs say what is so: examples run, command lines parse, links lead somewhere."""

from __future__ import annotations

import importlib
import importlib.util
import keyword
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_normalign.cli import options
from fairseq_normalign.cli.main import COMMANDS
from tests.conftest import PACKAGE, ROOT, run, write_translator
from tests.documented import PAGES, Line, command_lines, python_blocks

LINES = command_lines()
OURS = [line for line in LINES if line.words[0] == "normalign"]
FAIRSEQ = [line for line in LINES if line.words[0] != "normalign"]


def name(line: Line) -> str:
    return f"{line.where} {' '.join(line.words[:2])}"


def test_there_are_lines_of_every_kind():
    assert len(OURS) > 60
    assert len(FAIRSEQ) > 5
    assert {line.words[1] for line in OURS} <= set(COMMANDS)


def place_nothing(args, names, *, several: bool) -> None:
    models = [word for word in names[1:] if word.endswith(".pt")] if several else []
    assert 0 < len(names) - len(models) <= (1 if args.path else 3) or args.path
    args.path = args.path or (["model.pt"] if several else "model.pt")
    args.data = names[0] if names else None


@pytest.mark.parametrize("line", OURS, ids=name)
def test_our_command_lines_parse(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "check_files", lambda args: None)  # they are the reader's own
    monkeypatch.setattr(options, "place_model", place_nothing)
    for word in line.words:  # but for files behind a name, as in links:FILE
        if re.fullmatch(r"(reverse:)?(links|aligner):[\w.]+", word):
            Path(word.rpartition(":")[2]).touch()
    command = line.words[1]
    module = f"{command}_" if keyword.iskeyword(command) else command.replace("-", "_")
    importlib.import_module(f"fairseq_normalign.cli.{module}").parse_args(line.words[2:])


def fairseq_parser(command: str):
    """A fresh one, as parsing adds the options of what was named."""
    from fairseq import options as fairseq_options

    import fairseq_normalign.plugin  # noqa: F401  (registers)

    parsers = {
        "fairseq-train": fairseq_options.get_training_parser,
        "fairseq-generate": fairseq_options.get_generation_parser,
        "fairseq-interactive": lambda: fairseq_options.get_generation_parser(interactive=True),
        "fairseq-validate": fairseq_options.get_validation_parser,
    }
    return parsers[command]()


@pytest.mark.parametrize("line", FAIRSEQ, ids=name)
def test_fairseqs_command_lines_parse(line, tmp_path, monkeypatch):
    from fairseq import options as fairseq_options

    command, *words = line.words
    if "focused_norms" in words:
        pytest.skip("its plugin is tested by test_train_on_norms.py")
    monkeypatch.chdir(tmp_path)
    words = [str(PACKAGE) if word == "fairseq_normalign" else word for word in words]
    monkeypatch.setattr(sys, "argv", [command, *words])
    fairseq_options.parse_args_and_arch(fairseq_parser(command), input_args=words)


LINK = re.compile(r"\]\(([^)\s]+)\)")
# Links of the README are absolute, so that they work on PyPI too.
REPOSITORY = re.compile(
    r"https://(?:github\.com|raw\.githubusercontent\.com)/fairseq-normalign/fairseq_normalign/"
    r"(?:blob/)?main/(.*)"
)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "docs"], ids=str)
def test_links_lead_somewhere(page):
    """Those of docs are checked when the site is built."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        own = REPOSITORY.fullmatch(target)
        if "://" in target and not own:
            continue
        path, _, anchor = (own[1] if own else target).partition("#")
        folder = ROOT if own else page.parent
        place = folder / path if path else page
        assert place.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(place), f"{page.name}: {target}"


def test_the_readme_reads_well_elsewhere():
    """On PyPI, a relative link leads nowhere."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [target for target in LINK.findall(text) if "://" not in target] == []
    assert len(text.split()) <= 700


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_the_site_builds_in_strict_mode(tmp_path):
    for package in ("mkdocs", "material", "mkdocs_jupyter", "mkdocstrings_handlers.python"):
        if not is_installed(package):
            pytest.skip(f"{package} is not installed: pip install -e '.[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for file in tmp_path.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', file.read_text()
        )
        assert not fetched, f"{file.name} is not complete without the network"


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


# What a page takes for granted. Files of its own are in the folder that it is run in.
LOADED = """
from fairseq_normalign import NormAligner, text_pairs
pieces = {"bpe": "sentencepiece", "model": "spm.model"}
place = {"layer": 1, "step": "input"}
aligner = NormAligner.from_checkpoint("checkpoint_best.pt", data="data-bin", **pieces, **place)
texts = list(zip(open("test.de"), open("test.en")))
pairs = list(text_pairs(texts, aligner.reader))
model, task, reader = aligner.forcing.model, aligner.reader.task, aligner.reader
tokens, previous, _ = aligner.forcing.tensors(pairs[:2])
sample = {"net_input": {
    "src_tokens": tokens,
    "src_lengths": tokens.ne(task.source_dictionary.pad()).sum(1),
    "prev_output_tokens": previous,
}}
layer = 1
"""
TEXTS = "pairs = list(zip(open('test.de'), open('test.en')))[:20]\n"
BEFORE = {"docs/python.md": [TEXTS, "", "", LOADED]}  # by page: before its blocks, in turn
PLUGINS = ("docs/add-a-method.md", "docs/training.md")  # have tests of their own
PYTHON = {
    str(page.relative_to(ROOT)): own
    for page, own in python_blocks().items()
    if str(page.relative_to(ROOT)) not in PLUGINS
}


EXPORT = ("normalign", "export", "data-bin", "--quantity")
LEARN = ("normalign", "align", "deen", "test.de", "test.en", "-r", "ende", "--cpu")
EXPORTS = {  # files that examples read, and what wrote them
    "norms.npz": (*EXPORT, "head-norms", "--output", "norms.npz"),
    "shares.npz": (*EXPORT, "source-share", "--output", "shares.npz"),
    "vectors.npz": (
        *("fairseq-generate", "data-bin", "--user-dir", PACKAGE, "--beam", 2),
        *("--task", "translation_normalign", "--export-attention", "vectors.npz"),
        *("--export-quantity", "vectors", "--export-layers", 2),
    ),
}


@pytest.fixture
def folder(corpus, checkpoint, reverse, tmp_path, monkeypatch):
    """The files that examples name."""
    (tmp_path / "data-bin").symlink_to(corpus / "data-bin")
    shutil.copy(corpus / "spm.model", tmp_path)
    for name in ("checkpoint_best.pt", "deen.pt"):
        (tmp_path / name).symlink_to(checkpoint)
    for name in ("deen", "ende"):
        (tmp_path / name).mkdir()
        for file in (corpus / "spm.model", *corpus.glob("data-bin/dict.*")):
            shutil.copy(file, tmp_path / name)
    write_translator(tmp_path / "deen/checkpoint_best.pt", checkpoint, "src", "tgt")
    shutil.copy(reverse, tmp_path / "ende/checkpoint_best.pt")
    for language, own in (("de", "src"), ("en", "tgt")):
        shutil.copy(corpus / f"test.{own}", tmp_path / f"test.{language}")
    gold = (corpus / "test.talp").read_text()
    from_1 = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), gold)
    (tmp_path / "test.talp").write_text(from_1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON)
def test_python_examples_run(page, folder, checkpoint):
    text = "".join(block.text for block in PYTHON[page])
    for file, command in EXPORTS.items():
        if file in text:
            run(*command, "--path", checkpoint, "--remove-bpe", "sentencepiece", "--cpu")
    if page == "README.md":  # other pages write the file themselves
        run(*LEARN, "--combine", "learned", "--learned", "deen.learned")
    before = BEFORE.get(page, [LOADED])
    names: dict = {}
    for place, block in enumerate(PYTHON[page]):
        if place < len(before):
            exec(before[place], names)  # noqa: S102  (our own pages)
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, block.page, "exec"), names)  # noqa: S102


@pytest.mark.slow
def test_the_notebook_runs(folder, corpus, checkpoint):
    for package in ("nbclient", "ipykernel"):
        if not is_installed(package):
            pytest.skip(f"{package} is not installed: pip install -e '.[docs]'")
    (folder / "demo/model").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "demo/corpus").symlink_to(corpus)
    (folder / "demo/model/checkpoint_last.pt").symlink_to(checkpoint)
    from tests.conftest import TRAIN

    run(
        *TRAIN,
        *(corpus / "data-bin", "--user-dir", PACKAGE, "--max-update", 30),
        *("-s", "tgt", "-t", "src", "--save-dir", folder / "demo/reverse"),
        cwd=folder,
    )
    script = importlib.util.spec_from_file_location("notebook", ROOT / "scripts/notebook.py")
    module = importlib.util.module_from_spec(script)
    script.loader.exec_module(module)
    notebook = module.execute(ROOT / "docs/notebook.ipynb", folder / "docs")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tables = [cell for cell in code if "text/html" in str(cell.outputs)]
    assert len(tables) >= 7
    errors = [
        output.text for cell in code for output in cell.outputs if output.get("name") == "stderr"
    ]
    assert not [text for text in errors if "Warning" in text or "Error" in text]
