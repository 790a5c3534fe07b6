"""Evaluates options as fairseq's ``eval`` would, but nothing that runs: values and their sums."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from fairseq_normalign.errors import InputError

OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
SIGNS: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
LONGEST = 100_000  # of what a * repeats: enough for any list of layers, too little to fill a memory
SHOWN = 60  # characters of an option in a message


class RefusedOption(InputError):
    """An option that fairseq would run as Python.

    Args:
        text: its value.
        whose: what to call it, such as the checkpoint that has it and its name.
    """

    def __init__(self, text: str, whose: str = "an option"):
        self.text = text
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        super().__init__(
            f"{whose} is {shown!r}, which fairseq would run as Python; expected numbers, strings, "
            "lists, tuples or dictionaries"
        )


def evaluate(text: Any, *scopes: Any) -> Any:
    """The value of an expression like ``[(512, 3)] * 4 + [(1024, 3)]``.

    Stands in for the ``eval`` of fairseq's modules, which reads options that may come from a
    checkpoint. Names, calls, attributes and all else that could run code are refused.
    """
    if not isinstance(text, str):
        raise TypeError("eval() arg 1 must be a string")  # as of ``eval``: fairseq expects it
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        raise RefusedOption(text) from None


def _value(node: ast.AST) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.List():
            return [_value(entry) for entry in node.elts]
        case ast.Tuple():
            return tuple(_value(entry) for entry in node.elts)
        case ast.Set():
            return {_value(entry) for entry in node.elts}
        case ast.Dict():
            keys = [_value(key) for key in node.keys]  # type: ignore[arg-type]
            return dict(zip(keys, map(_value, node.values), strict=True))
        case ast.UnaryOp() if type(node.op) in SIGNS:
            return SIGNS[type(node.op)](_value(node.operand))
        case ast.BinOp() if type(node.op) in OPERATORS:
            function = OPERATORS[type(node.op)]
            return _combined(function, _value(node.left), _value(node.right))
    raise ValueError(f"not a value: {type(node).__name__}")


def _combined(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if function is operator.mul:
        for sequence, times in ((left, right), (right, left)):
            if hasattr(sequence, "__len__") and len(sequence) * times > LONGEST:
                raise ValueError("too long")
    return function(left, right)
