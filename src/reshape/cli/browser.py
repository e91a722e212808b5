"""The live page, for people who sit before this machine's screen or tunnel to it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def ready_page() -> None:
    """Serve the page from now on: where that is not possible, people hear of it before Spark is started."""
    from reshape.page.server import open_page

    open_page()


def show_page(console: Console, url: str) -> None:
    """Say where the page is, and open it where there is a screen."""
    console.print("live page, for a browser on this machine:", style="dim")
    console.print(url, soft_wrap=True, markup=False)
    open_in_browser(url)


def open_in_browser(url: str) -> None:
    import webbrowser

    # Without a screen Python would start a browser in this very terminal.
    has_screen = sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not has_screen or not webbrowser.open(url):
        print("no browser could be opened here; open the address yourself", file=sys.stderr)


def hold_page(console: Console) -> None:
    """The page ends with this process: let people look at it as long as they like."""
    if not (console.is_terminal and sys.stdin.isatty()):
        return
    try:
        input("The page stays until you press Enter. ")
    except (EOFError, KeyboardInterrupt):
        print()
