"""Sentences with some of their tokens masked, as masked language models read them in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from fairseq_normalign.host.pairs import Pair, Sentence


def with_masks(
    pairs: Iterable[Pair], share: float, mask: int, *, seed: int, first: int = 0
) -> Iterator[Pair]:
    """The pairs with tokens of their sources masked: by seed and line, whoever reads the line.

    Args:
        first: the line of the first pair, from 0.
    """
    for line, pair in enumerate(pairs, first):
        draws = Random(f"{seed} {line}")
        yield pair._replace(source=masked(pair.source, share, mask, draws))


def masked(sentence: Sentence, share: float, mask: int, draws: Random) -> Sentence:
    """A sentence with ⌊share · n⌋ of its n tokens masked, one at least (Kobayashi et al., 2021).

    Special tokens are not counted, and stay. Every token that is drawn becomes the mask; in a
    model's training, some become another word or stay. A share of 0 masks none.
    """
    places = [place for place, word in enumerate(sentence.words) if word >= 0]
    rounded_down = int(share * len(places) + 1e-9)  # 0.29 · 100 is 28.999… in a computer
    fewest = 1 if share > 0 and places else 0
    count = max(rounded_down, fewest)
    tokens = sentence.tokens.clone()
    for place in draws.sample(places, count):
        tokens[place] = mask
    return sentence._replace(tokens=tokens, unknown=())  # some of the unknown may be masked
