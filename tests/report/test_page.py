"""Pages: safe text, alt texts, numbers that can be read."""

import os
import subprocess
import sys

import pytest

from fluoroscope.report.figures import lines
from fluoroscope.report.page import Picture, Section, Table, render


def test_text_cannot_become_markup():
    page = render("<b>", "x", [Section("s", "<script>", [Table(["<i>"], [["<u>", 0.12345, None]])])], {"k": "<em>"})
    for tag in ("<b>", "<script>", "<i>", "<u>", "<em>"):
        assert tag not in page
    assert "0.123" in page
    assert "–" in page


def test_pictures_have_words():
    drawn = lines({"a": [(1, 2.0), (2, 3.0)], "mean": [(1, 1.0)], "none": []}, "x", "y", bold="mean", log=True)
    assert drawn.startswith("<svg")
    page = render("t", "l", [Section("s", "", [Picture(drawn, "a rising line"), Picture("data:,", "none")])], {})
    assert 'aria-label="a rising line"' in page
    assert 'alt="none"' in page
    assert drawn == lines({"a": [(1, 2.0), (2, 3.0)], "mean": [(1, 1.0)], "none": []}, "x", "y", bold="mean", log=True)


@pytest.mark.parametrize("works", [True, False])
def test_a_pdf_is_whole_or_not_there_whatever_the_locale(tmp_path, works):
    """A browser that speaks in letters that no ASCII locale knows."""
    browser = tmp_path / "browser"
    ending = 'for a in "$@"; do case $a in --print-to-pdf=*) printf x > "${a#*=}";; esac; done' if works else "exit 1"
    browser.write_bytes(f"#!/bin/sh\nprintf 'h\\303\\251\\377\\n' >&2\n{ending}\n".encode())
    browser.chmod(0o755)
    (tmp_path / "page.html").write_text("<p>x")
    (tmp_path / "page.pdf").write_text("old")
    code = "import sys; from pathlib import Path; from fluoroscope.report.browser import print_pdf; "
    code += "print_pdf(Path(sys.argv[1]), Path(sys.argv[2]))"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "CHROME_BIN": str(browser)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "page.html"), str(tmp_path / "page.pdf")],
        env=os.environ | plain, capture_output=True,
    )  # fmt: skip
    assert (done.returncode == 0) == works, done.stderr
    assert b"UnicodeDecodeError" not in done.stderr
    assert (tmp_path / "page.pdf").read_text() == ("x" if works else "old")
    assert not list(tmp_path.glob(".*.part"))
