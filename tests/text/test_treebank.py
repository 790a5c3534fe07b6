import re

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.treebank import Tree, read_conllu


def row(number, form, head, relation, tag="_"):
    return "\t".join([str(number), form, "_", tag, "_", "_", str(head), relation, "_", "_"])


def write(tmp_path, *lines, end="\n", newline="\n"):
    path = tmp_path / "x.conllu"
    path.write_bytes((newline.join(lines) + end).encode())
    return path


DOGS = [row(1, "Dogs", 2, "nsubj"), row(2, "eat", 0, "root"), row(3, "fish", 2, "obj")]
SHORT = [row(1, "Go", 0, "root", "VERB")]
# zum Haus gehen = zu dem Haus gehen; 3.1 is an empty node
ZUM = [
    "# text = zum Haus gehen",
    row("1-2", "zum", "_", "_"),
    row(1, "zu", 3, "case", "ADP"),
    row(2, "dem", 3, "det", "DET"),
    row(3, "Haus", 4, "obl", "NOUN"),
    row("3.1", "hin", "_", "_"),
    row(4, "gehen", 0, "root"),
]
# gib's = gib es: the second part depends on the first, and is lost
GIBS = [
    row("1-2", "gib's", "_", "_"),
    row(1, "gib", 0, "root"),
    row(2, "es", 1, "obj"),
    row(3, "ihm", 1, "iobj"),
]


@pytest.mark.parametrize("end", ["\n\n", "\n", ""])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_sentences_whatever_the_ends_of_lines(end, newline, tmp_path):
    path = write(
        tmp_path, "# newdoc", "", "# sent_id = 1", *DOGS, "", "", *SHORT, end=end, newline=newline
    )
    first, second = read_conllu(path)
    relations = ["nsubj", "root", "obj"]
    words = ["Dogs", "eat", "fish"]
    assert first == Tree(words, [1, -1, 1], relations, f"{path}:3", ["_"] * 3)
    assert second == Tree(["Go"], [-1], ["root"], f"{path}:9", ["VERB"])
    assert first.root == 1


def test_multiword_tokens_and_empty_nodes(tmp_path):
    zum, gibs = read_conllu(write(tmp_path, *ZUM, "", *GIBS))
    assert zum[:3] == (["zum", "Haus", "gehen"], [1, 2, -1], ["case", "obl", "root"])
    assert zum.tags == ["ADP", "NOUN", "_"]
    assert gibs[:3] == (["gib's", "ihm"], [-1, 0], ["root", "iobj"])


def test_a_part_whose_head_is_inside_gives_way_to_one_whose_head_is_outside(tmp_path):
    lines = [
        row("1-2", "am", "_", "_"),
        row(1, "an", 2, "case"),
        row(2, "dem", 3, "det"),
        row(3, "Haus", 0, "root"),
    ]
    (tree,) = read_conllu(write(tmp_path, *lines))
    assert tree[:3] == (["am", "Haus"], [1, -1], ["det", "root"])


def test_a_blank_inside_a_word(tmp_path):
    (tree,) = read_conllu(write(tmp_path, row(1, "10 000", 0, "root")))
    assert tree.words == ["10\u00a0000"]


NO_TREE = ":1: the heads of the sentence make no tree with one root"
OVERLAP = "multiword tokens overlap, or go beyond the sentence"
BAD = [
    (":2: bad line '2\\t_", [SHORT[0], "2" + "\t_" * 8]),
    (":1: bad line '1 Go _ _ _ _ 0 root _ _'; expected CoNLL-U", ["1 Go _ _ _ _ 0 root _ _"]),
    (":2: bad line '3\\ton", [SHORT[0], row(3, "on", 1, "x")]),
    (":2: bad line '2\\ton", [SHORT[0], row(2, "on", "_", "x")]),
    (":2: bad line '2\\ton", [SHORT[0], row(2, "on", "9" * 5000, "x")]),
    (NO_TREE, [row(1, "Go", 2, "x"), row(2, "on", 1, "x")]),
    (NO_TREE, [SHORT[0], row(2, "on", 0, "x")]),
    (f":1: {OVERLAP}", [row("1-3", "Go", "_", "_"), *SHORT]),
]


@pytest.mark.parametrize(("message", "lines"), BAD)
def test_bad_files(message, lines, tmp_path):
    with pytest.raises(InputError, match=re.escape("x.conllu" + message)) as refused:
        list(read_conllu(write(tmp_path, *lines)))
    assert len(str(refused.value)) < 400


def test_files_without_sentences_and_no_file(tmp_path):
    for text in ("", "# a comment\n"):
        (tmp_path / "x").write_text(text)
        with pytest.raises(InputError, match="x: has no sentence; expected CoNLL-U"):
            list(read_conllu(tmp_path / "x"))
    with pytest.raises(InputError, match="none: No such file"):
        list(read_conllu(tmp_path / "none"))
