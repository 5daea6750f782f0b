"""The user's browser, if there is one to open a page in."""

from __future__ import annotations

import os
import sys
import webbrowser

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def has_browser() -> bool:
    """Whether a page can be shown in a window on this machine."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _DISPLAYS):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def open_page(address: str) -> bool:
    """Open a page in the user's browser. Returns `False` if there is none."""
    return has_browser() and webbrowser.open(address)
