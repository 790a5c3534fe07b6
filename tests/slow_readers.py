"""Slow readers of all formats, written from their definitions, to read what our parsers read.

With as little of Python's cleverness as possible: ``int`` and ``str.split`` know more digits and
blanks than a format has.
"""

from __future__ import annotations

import gzip
import zlib


class Refused(Exception):
    """What a slow reader says of a file that is none of its format."""


def lines_of(content: bytes) -> list[str]:
    """Lines of UTF-8 text end in LF or CRLF; a mark of the byte order may stand before the first.

    The last one need not end. A CR elsewhere is the end of a line for some and none for others.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused from None
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    if any("\r" in line for line in lines):
        raise Refused
    return lines


def words_of(line: str) -> list[str]:
    """Between blanks of ASCII."""
    words = [""]
    for sign in line:
        if sign in " \t\n\r\f\v":
            words.append("")
        else:
            words[-1] += sign
    return [word for word in words if word]


def whole_number(text: str) -> int:
    """Nine digits at most."""
    if not 1 <= len(text) <= 9 or any(sign not in "0123456789" for sign in text):
        raise Refused
    return int(text)


def check_decimal(text: str) -> None:
    """0.93 or 1e-5, without a sign: a confidence."""
    mantissa, e, exponent = text.lower().partition("e")
    if e:
        digits = exponent[1:] if exponent[:1] in ("+", "-") else exponent
        whole_number(digits)
        if len(digits) > (3 if exponent.startswith("-") else 2):
            raise Refused
    before, _, after = mantissa.partition(".")
    if max(len(before), len(after)) > 60:
        raise Refused
    if not before + after or any(sign not in "0123456789" for sign in before + after):
        raise Refused


def link_of(token: str) -> tuple[tuple[int, int], str]:
    link, colon, confidence = token.partition(":")
    if colon:
        check_decimal(confidence)
    for mark in "-p":
        source, found, target = link.partition(mark)
        if found:
            return (whole_number(source), whole_number(target)), mark
    raise Refused


def pharaoh(content: bytes) -> list[set]:
    return [{link_of(token)[0] for token in words_of(line)} for line in lines_of(content)]


def gold(content: bytes) -> list[tuple[set, set]]:
    sentences = []
    for line in lines_of(content):
        links = [link_of(token) for token in words_of(line)]
        sure = {link for link, mark in links if mark == "-"}
        sentences.append((sure, {link for link, _ in links}))
    return sentences


def naacl(content: bytes) -> list[set]:
    """Counted from 1, links with the empty word 0 left out."""
    sentences: dict[int, set] = {}
    last = 0
    for line in lines_of(content):
        fields = words_of(line)
        if not fields:
            continue
        if len(fields) < 3:
            raise Refused
        number, source, target = map(whole_number, fields[:3])
        rest = fields[4:] if fields[3:4] in (["S"], ["P"]) else fields[3:]
        if len(rest) > 1 or number < last:
            raise Refused
        if rest:
            check_decimal(rest[0])
        sentences.setdefault(number, set())
        if source and target:
            sentences[number].add((source - 1, target - 1))
        last = number
    if not sentences:
        return []
    first = min(1, *sentences)
    return [sentences.get(number, set()) for number in range(first, last + 1)]


def text(content: bytes) -> list[list[str]]:
    return [words_of(line) for line in lines_of(content)]


def unpacked(content: bytes) -> list[list[str]]:
    try:
        return text(gzip.decompress(content))
    except (OSError, EOFError, zlib.error):
        raise Refused from None


def printed(content: bytes) -> tuple | None:
    by_kind: dict[str, dict[int, list[str]]] = {"S": {}, "H": {}}
    for line in lines_of(content):
        head, _, rest = line.partition("\t")
        kind, number = head[:1], head[2:]
        if kind not in by_kind or head[1:2] != "-" or "\t" not in line:
            continue
        if not (number and number.isascii() and number.isdigit() and len(number) <= 18):
            continue
        words = words_of(rest if kind == "S" else rest.partition("\t")[2])
        by_kind[kind].setdefault(int(number), words)
    if not by_kind["H"]:
        return None
    numbers = sorted(by_kind["H"])
    if numbers != list(range(len(numbers))) or not set(numbers) <= set(by_kind["S"]):
        raise Refused
    return tuple([by_kind[kind][number] for number in numbers] for kind in "SH")


def frequencies(content: bytes) -> dict[str, float]:
    counts: dict[str, float] = {}
    for line in lines_of(content):
        fields = words_of(line)
        if not fields:
            continue
        if len(fields) != 2 or fields[0] in counts:
            raise Refused
        check_decimal(fields[1])
        counts[fields[0]] = float(fields[1])
    if any(count == float("inf") for count in counts.values()):
        raise Refused
    return counts


def conllu(content: bytes) -> list[tuple[list[str], list[str]]]:
    """The words of each sentence, and the heads of those that have no multiword token."""
    sentences: list[tuple[list[str], list[str]]] = []
    rows: list[list[str]] = []
    for line in [*lines_of(content), ""]:
        if line.strip():
            if not line.startswith("#"):
                rows.append(line.split("\t"))
        elif rows:
            sentences.append(surface(rows))
            rows = []
    return sentences


def surface(rows: list[list[str]]) -> tuple[list[str], list[str]]:
    words, heads = [], []
    until = 0
    for fields in rows:
        if len(fields) != 10:
            raise Refused
        first, dash, last = fields[0].partition("-")
        if "." in fields[0]:
            continue
        if dash:
            words.append(fields[1].replace(" ", "\u00a0"))
            until = whole_number(last)
        elif whole_number(first) > until:
            words.append(fields[1].replace(" ", "\u00a0"))
        heads.append(str(whole_number(fields[6]) - 1) if not dash else "range")
    return words, [] if "range" in heads else heads


def same_trees(trees: list, slow: list) -> bool:
    if len(trees) != len(slow):
        return False
    for (words, heads), (slow_words, slow_heads) in zip(trees, slow, strict=True):
        if words != slow_words or (slow_heads and heads != slow_heads):
            return False
    return True
