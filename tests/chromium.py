"""The browser that pages are tested in, and photographed by."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """The path of Chromium: what CHROMIUM says, or one that is installed.

    Raises:
        FileNotFoundError: if there is none.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise FileNotFoundError("Chromium is not installed; CHROMIUM=PATH names it")
    return found
