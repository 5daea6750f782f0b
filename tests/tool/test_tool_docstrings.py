from __future__ import annotations

import pytest

from awaken.tool import tool
from awaken.tool.signature import parse_docstring

GOOGLE = """Look up the weather.

    It asks a service,
    and may be slow.

    Args:
        city: The city's name,
            in English.
        days (int, optional): How many days.
        unit (Literal["c", "f"]): One of: "c" or "f".

        *others: Ignored.

    Returns:
        text: Something.

    Raises:
        ValueError: never.
    """

NUMPY = """Look up the weather.

    It asks a service,
    and may be slow.

    Parameters
    ----------
    city : str
        The city's name,
        in English.
    days : int, optional
        How many days.
    unit
        One of: "c" or "f".

    Returns
    -------
    text : str
        Something.
    """

SPHINX = """Look up the weather.

    It asks a service,
    and may be slow.

    :param city: The city's name,
        in English.
    :type city: str
    :param int days: How many days.
    :param unit: One of: "c" or "f".
    :returns: Something.
    :raises ValueError: never.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_are_read_alike(text: str) -> None:
    found = parse_docstring(text)
    assert found.description == "Look up the weather.\n\nIt asks a service,\nand may be slow."
    found.parameters.pop("others", None)
    assert found.parameters == {
        "city": "The city's name, in English.",
        "days": "How many days.",
        "unit": 'One of: "c" or "f".',
    }


def test_no_docstring_is_an_empty_one() -> None:
    assert parse_docstring(None) == ("", {})
    assert parse_docstring("") == ("", {})


def test_a_docstring_may_have_sections_only() -> None:
    assert parse_docstring("\nArgs:\n    a: first\n") == ("", {"a": "first"})


def test_a_word_with_a_colon_is_no_section_unless_something_is_indented_below() -> None:
    text = "Do it.\n\nNote:\nnothing is indented here.\n\nReturns: at once."
    assert parse_docstring(text).description == text


def test_numpy_entries_may_share_a_description() -> None:
    text = "Add.\n\nParameters\n----------\na, b : int\n    A number.\n*rest\n    More."
    assert parse_docstring(text).parameters == {
        "a": "A number.",
        "b": "A number.",
        "rest": "More.",
    }


def test_a_sphinx_field_ends_at_a_blank_line() -> None:
    found = parse_docstring("Do.\n\n:param a: first\n\nSomething else.")
    assert found == ("Do.", {"a": "first"})


def test_descriptions_reach_the_model() -> None:
    @tool
    def weather(city: str, days: int = 1) -> str:
        """Look up the weather.

        Args:
            city: The city's name.
            days: How many days.
        """
        return city * days

    described = weather.descriptor()
    assert described.description == "Look up the weather."
    assert described.parameters["properties"] == {
        "city": {"type": "string", "description": "The city's name."},
        "days": {"type": "integer", "description": "How many days.", "default": 1},
    }
