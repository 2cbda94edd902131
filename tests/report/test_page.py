"""Pages: safe text, alt texts, numbers that can be read."""

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
