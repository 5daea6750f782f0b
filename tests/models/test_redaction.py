"""Keys in the messages of providers."""

from awaken.core.secret import RedactedString


def test_a_short_key_is_left_in_and_a_long_one_is_not() -> None:
    text = "a message that has sk-12345 in it"
    assert RedactedString("a").redact(text) == text
    assert RedactedString("message").redact(text) == text
    assert "sk-12345" not in RedactedString("sk-12345").redact(text)
