"""Printing a page to PDF with the Chromium or Chrome of this machine."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fluoroscope.errors import BadInput, Unsupported

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_SECONDS = 120


def find_browser() -> str | None:
    """CHROME_BIN, or the first of the usual names on the PATH."""
    given = os.environ.get("CHROME_BIN")
    return shutil.which(given) if given else next(filter(None, map(shutil.which, NAMES)), None)


def print_pdf(page: Path, pdf: Path) -> None:
    """Print the page."""
    browser = find_browser()
    if browser is None:
        raise Unsupported(
            "--pdf needs Chromium or Chrome, and none was found. Install one, name it in CHROME_BIN, or print "
            f"{page} to PDF from any browser."
        )
    part = pdf.with_name(f".{pdf.name}.part")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={profile}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # as in a container: Chromium's sandbox refuses root
            command.append("--no-sandbox")
        try:
            done = subprocess.run(
                [*command, f"--print-to-pdf={part.resolve()}", page.resolve().as_uri()],
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                encoding="utf-8",
                umask=0o077 if page.stat().st_mode & 0o077 == 0 else -1,  # a private page's PDF is private
                errors="replace",  # whatever the locale: what a browser says is for people
            )
            said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
            failed = done.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as problem:
            failed, said = True, [str(problem)]
    if failed or not part.is_file():
        part.unlink(missing_ok=True)
        raise BadInput(f"{browser} could not print {page}: {' '.join(said) or 'it wrote no file'}. Print it by hand.")
    part.replace(pdf)
