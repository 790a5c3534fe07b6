"""Sums as bytes: everything comes back exactly, and nothing else can be made."""

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.runs.state import pack, unpack


class Place(NamedTuple):
    kind: str
    layer: int


class Sums:
    def __init__(self):
        self.total = np.zeros(3)


@dataclass
class Holder:
    sums: Sums
    by_place: dict


CLASSES = (Place, Sums, Holder)


def round_trip(state):
    return unpack(pack(state, CLASSES), CLASSES)


@pytest.mark.parametrize(
    "state",
    [
        *(None, True, 3, -(2**80), 0.1, 1e-320, math.inf, -math.inf, "", "‖αf(x)‖ \udcff\n"),
        [1, (2.5, "x"), []],
        {("encoder", 0): 1, 3: {"x": ()}, None: False},
        Counter({-1: 2, 5: 2}),
        defaultdict(int, {("cross", 1): 4}),
        Place("cross", 2),
        {Place("cross", 2): [Place("encoder", 0)]},
    ],
    ids=repr,
)
def test_values_come_back(state):
    again = round_trip(state)
    assert again == state
    assert type(again) is type(state)
    assert repr(again) == repr(state)  # the order of dictionaries, too


def test_numbers_that_are_not_equal_to_themselves():
    nan, minus = round_trip([math.nan, -0.0])
    assert math.isnan(nan)
    assert math.copysign(1, minus) == -1


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, np.nan, -0.0], [np.inf, -np.inf, 1e-310]]),
        np.array([0.1, 3e38], dtype=np.float32),
        np.arange(6, dtype=np.int64).reshape(2, 3).T,
        np.empty((0, 4), dtype=np.float32),
        np.array([True, False]),
        np.array(7.25),
    ],
)
def test_arrays_come_back_bit_for_bit(array):
    again = round_trip({"array": array})["array"]
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.tobytes() == array.tobytes()
    again[...] = 0  # sums are added to


def test_scalars_of_numpy_keep_their_type():
    again = round_trip(np.float32(0.1))
    assert type(again) is np.float32
    assert again == np.float32(0.1)


def test_a_generator_goes_on_where_it_was():
    generator = np.random.default_rng(3)
    generator.random(5)
    again = round_trip(generator)
    assert (again.random(9) == generator.random(9)).all()


def test_objects_within_objects():
    holder = Holder(Sums(), defaultdict(Sums, {0: Sums()}))
    holder.sums.total += [0.1, 0.2, 0.3]
    again = round_trip(holder)
    assert type(again) is Holder
    assert (again.sums.total == holder.sums.total).all()
    assert (again.by_place[5].total == 0).all()  # made by the factory


def test_a_class_that_is_not_named_is_refused():
    with pytest.raises(TypeError, match="Sums: cannot be kept"):
        pack([Sums()])
    with pytest.raises(TypeError, match="cannot be kept"):
        pack(np.array([object()]))
    with pytest.raises(InputError, match="is damaged"):
        unpack(pack(Sums(), CLASSES), (Place,))
    packed = json.dumps({"tree": ["object", "Popen", []], "arrays": []}).encode()
    with pytest.raises(InputError, match="is damaged"):
        unpack(packed + b"\n", CLASSES)


@pytest.mark.parametrize(
    "contents",
    [
        *(b"", b"\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * 100_000),
        b'{"tree": ["array", 0], "arrays": []}\n',
        b'{"tree": ["array", 0], "arrays": [["<f8", [2]]]}\n12345678',
        b'{"tree": ["array", 0], "arrays": [["|O", [1]]]}\n12345678',
        b'{"tree": ["array", 0], "arrays": [["<f8", [99999999999999]]]}\n12345678',
        b'{"tree": ["list", 3], "arrays": []}\n',
        b'{"tree": ["dict", [[["list", []], 1]]], "arrays": []}\n',
        b'{"tree": ["generator", 3], "arrays": []}\n',
        b'{"tree": ["eval", 3], "arrays": []}\n',
        b'{"tree": 1, "arrays": []}\nmore',
    ],
)
def test_bytes_that_are_something_else(contents):
    with pytest.raises(InputError, match="is damaged"):
        unpack(contents, CLASSES)
