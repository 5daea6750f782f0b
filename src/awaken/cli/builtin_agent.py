"""The agent that `awaken chat` uses when none is named; it needs no key and no network."""

from __future__ import annotations

import ast
import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

from awaken.core.tool import ToolError
from awaken.runtime import Agent
from awaken.tool import tool

LONGEST_EXPRESSION = 200
LARGEST_EXPONENT = 64
EXACT = 2**53


def _power(base: float, exponent: float) -> Any:
    # A short expression can produce an integer that fills the memory; floats end at 1e308.
    return operator.pow(base if exponent <= LARGEST_EXPONENT else float(base), exponent)


_TWO: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_ONE: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def build_builtin_agent() -> Agent:
    """A small agent on the demo model, with two tools."""
    return Agent("assistant", model="demo", tools=[calculate, count_words])


@tool
async def calculate(expression: str) -> float:
    """Calculate an arithmetic expression, such as 12 * (3 + 4).

    Args:
        expression: numbers, + - * / // % ** and parentheses.
    """
    if len(expression) > LONGEST_EXPRESSION:
        raise ToolError.invalid_arguments("the expression is too long")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except OverflowError as error:
        raise ToolError.execution_failed("the result is too large") from error
    except (SyntaxError, ArithmeticError, ValueError, RecursionError) as error:
        raise ToolError.execution_failed(f"cannot calculate {expression!r}: {error}") from error


@tool
async def count_words(text: str) -> dict[str, Any]:
    """Count the words and characters of a text."""
    words = text.split()
    most = Counter(word.strip(".,;:!?\"'").lower() for word in words).most_common(1)
    return {
        "words": len(words),
        "characters": len(text),
        "most common": most[0][0] if most else None,
    }


def _real(result: object) -> float:
    """A result as a number that JSON can hold; an integer too large to be exact becomes a float."""
    if not isinstance(result, int | float):
        raise ValueError("the result is not a real number")
    if not math.isfinite(result):
        raise OverflowError
    return result if isinstance(result, int) and abs(result) <= EXACT else float(result)


def _value(node: ast.expr) -> float:
    """The value of an arithmetic expression."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _real(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _TWO:
            return _real(_TWO[type(op)](_value(left), _value(right)))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _ONE:
            return _real(_ONE[type(op)](_value(operand)))
    raise ValueError("only numbers, + - * / // % ** and parentheses are understood")
