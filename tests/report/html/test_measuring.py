"""What the overview is told of models and corpus; nothing is measured here."""

from types import SimpleNamespace

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.report.html.measuring import Gatherer
from tests.report.html.made_up import PAIRS, QUALITY, browser


def gatherer(*names):
    """One that has measured these models."""
    made = Gatherer(options=None)
    made.systems = list(browser(*names).systems)
    made.texts = PAIRS
    made.quality = QUALITY
    return made


def material(name, *languages):
    return SimpleNamespace(name=name, languages=languages)


def test_models_of_two_directions_are_refused():
    made = gatherer("deen.pt")
    made._check_direction(material("more.pt", "de", "en"))
    with pytest.raises(InputError) as refused:
        made.add(material("ende.pt", "en", "de"), systems=2)
    assert str(refused.value) == (
        "deen.pt: translates de–en, ende.pt en–de; expected models of one direction"
    )


def test_the_first_model_may_have_any_direction():
    Gatherer(options=None)._check_direction(material("ende.pt", "en", "de"))


def test_how_many_pairs_there_are():
    made = gatherer("deen.pt")
    made.total, made.scored_on = 5008, 5008
    assert made.facts() == [
        ("pairs of the corpus", "5,008"),
        ("pairs that AER is measured on", "5,008"),
        ("pairs that cannot be browsed", "5,004"),
    ]


def test_pairs_of_unknown_number_without_gold():
    assert gatherer("deen.pt").facts() == []


def test_pairs_are_counted_while_error_rates_are_measured():
    made = gatherer("deen.pt")
    assert list(made._counted("abc")) == ["a", "b", "c"]
    assert made.scored_on == 3
