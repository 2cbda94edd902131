"""The page of an audit: true to its findings, safe to send, the same every time."""

import base64
import io
import json
import os
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from markupsafe import Markup
from PIL import Image
from skimage.metrics import structural_similarity

from fluoroscope.errors import BadInput
from fluoroscope.findings.metrics import ATTACKED
from fluoroscope.findings.pointer import resolve
from fluoroscope.report.audit_report import write_report
from fluoroscope.report.embedded import BLURRED_TO, blurred
from tests.report.audits import as_format_1, pictures

NUMBER = re.compile(r'<span class="n" data-(finding|timing)="([^"]+)" data-format="([^"]+)">([^<]*)</span>')
IMAGE = re.compile(r'src="data:image/png;base64,([^"]+)"')


def page_of(folder, tmp_path, **how):
    return write_report(folder, out=tmp_path / "page.html", **how).read_text(encoding="utf-8")


def embedded(page):
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(found)))) for found in IMAGE.findall(page)]


@pytest.fixture(scope="module")
def page(audit, tmp_path_factory):
    return page_of(audit, tmp_path_factory.mktemp("page"))


def test_every_number_is_a_finding(audit, page):
    documents = {name: json.loads((audit / f"{name}.json").read_text()) for name in ("findings", "timing")}
    found = NUMBER.findall(page)
    assert len(found) == page.count('class="n"') > 400
    for where, at, how, text in found:
        value = resolve(documents["findings" if where == "finding" else "timing"], at.replace("&#34;", '"'))
        expected = {"–", "(not measured)"} if value is None else {format(value, how)}
        assert text in expected, at


def test_no_number_of_a_table_is_without_its_address(page):
    assert not re.findall(r"<t[dh][^>]*>\s*-?\d+(?:\.\d+)?\s*</t[dh]>", page)


def test_every_score_is_on_the_page(audit, page):
    shown = {at for _, at, _, _ in NUMBER.findall(page)}
    for i, cell in enumerate(json.loads((audit / "findings.json").read_text())["cells"]):
        for name in cell["scores"]:
            assert f"/cells/{i}/scores/{name}/value" in shown


def test_the_officer_reads_it_first(page):
    order = ["Is it safe?", "Questions, and what was measured", "Attacker by attacker", "Recommended setting",
             "What may be said", "What was assumed of the attacker", "What was left out, failed or gave up",
             "Words"]  # fmt: skip
    places = [page.index(f"{title}</h2>") for title in [*order, "For the engineer"]]
    assert places == sorted(places)
    for words in ("Leaks", "Holds", "Unclear", "Not tested", "with 95 % confidence between", "Stopped by"):
        assert words in page
    assert "the loss became infinite in round 1" in page
    assert "the budget of 10 minutes was spent" in page
    assert "<strong>Gave up.</strong>" in page
    assert "the update has no step that span can read" in page


def test_the_officer_sees_every_setting_and_the_sizes(page):
    officer, engineer = page.split("For the engineer</h2>")
    table = officer.split('<table class="levels">')[1].split("</table>")[0]
    rows = [re.findall(r'class="badge ([a-z-]+)"', row) for row in table.split("<tr>")[2:]]
    assert rows == [
        ["leaks", "unclear", "holds", "not-tested"],
        ["leaks", "unclear", "holds", "not-tested"],
        ["unclear", "unclear", "holds", "not-tested"],
        ["holds"] * 4,
    ]
    said = re.sub(r"<[^>]+>", "", officer)
    assert "is at most: reconstruction, leak: 0.02; reconstruction, line-up: 2 times what guessing reaches" in said
    assert "right answers: 0.1 above what guessing reaches" in said
    assert "Right answers: 45%" in said, "how sure it is, without an abbreviation"
    attackers = re.sub(r"<[^>]+>", "", officer.split('<ul class="attackers">')[1].split("</ul>")[0])
    assert not re.search(r"\b[A-Z]{2,}\b", attackers), "one sentence each, without an acronym"
    assert "other patients" in engineer


def test_findings_of_format_1_have_a_page(audit, tmp_path):
    document = as_format_1(json.loads((audit / "findings.json").read_text()))
    for cell in document["cells"]:
        cell["gallery"] = []
    (tmp_path / "findings.json").write_text(json.dumps(document))
    page = page_of(tmp_path, tmp_path)
    assert "Setting by setting" not in page
    assert "is at most" not in page
    assert "RDLV by round and client" in page


@pytest.mark.parametrize("attacked", ["recorded update", "stand-ins"])
def test_both_readers_are_told_what_a_reconstruction_was_measured_on(audit, tmp_path, attacked):
    document = json.loads((audit / "findings.json").read_text())
    for cell in document["cells"]:
        cell["gallery"] = []
        if cell["kind"] == "reconstruction" and cell["status"] == "done":
            cell["attacked"] = attacked
    (tmp_path / "findings.json").write_text(json.dumps(document))
    officer, engineer = page_of(tmp_path, tmp_path).split("For the engineer</h2>")
    words = str(Markup.escape(ATTACKED[attacked]))
    card, *others = officer.split("<article")[1:]
    assert words in card, "beside the curious server's numbers"
    assert not any(words in other for other in others)
    assert engineer.count(words) == 2, "beside both tables"
    assert f"<small>({attacked})</small>" in engineer
    assert engineer.count(f"<td>{attacked}</td>") == sum("attacked" in cell for cell in document["cells"])


def test_older_findings_do_not_say_what_was_attacked(page):
    assert not any(words in page for words in ("stand-ins", "recorded update", '<th scope="col">Measured on</th>'))


def test_headings_are_in_order(page):
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_the_page_stands_alone(page):
    bare = re.sub(r'xmlns(:\w+)?="[^"]+"', "", page)
    assert "http" not in bare
    assert not re.search(r'(src|href)="(?!data:image/png|#)', bare)
    assert "<b>not markup</b>" not in page


def test_sections_without_cells_are_absent(audit, tmp_path):
    document = json.loads((audit / "findings.json").read_text())
    document["cells"] = [cell for cell in document["cells"] if cell["kind"] == "federation"]
    for key in ("verdicts", "safe_to_say", "not_safe_to_say", "left_out"):
        document[key] = []
    document["recommendation"] = {"defence": None, "text": {"text": "Nothing was attacked.", "numbers": []}}
    (tmp_path / "findings.json").write_text(json.dumps(document))
    small = page_of(tmp_path, tmp_path)
    assert "Leakage and accuracy by defence" in small
    assert "Round by round" in small
    for title in ("Client inference", "reconstructions look like", "guard's verdicts", 'id="say"',
                  "left out, failed or", "How long it took", "<input", "What it looks like",
                  "Who was found?"):  # fmt: skip
        assert title not in small


def test_an_audit_without_any_result_has_a_page(audit, tmp_path):
    document = json.loads((audit / "findings.json").read_text())
    none = {"status": "failed", "reason": "no memory", "scores": {}, "curves": {}, "gallery": [], "verdicts": []}
    document["cells"] = [{**cell, **none} for cell in document["cells"]]
    for key in ("verdicts", "safe_to_say"):
        document[key] = []
    document["recommendation"] = {"defence": None, "text": {"text": "Nothing worked.", "numbers": []}}
    (tmp_path / "findings.json").write_text(json.dumps(document))
    assert page_of(tmp_path, tmp_path).count("no memory") >= len(document["cells"])


def test_any_name_can_be_drawn(audit, tmp_path):
    """Long, foreign, with signs that matplotlib knows; and cells that only a further setting tells apart."""
    text = (audit / "findings.json").read_text().replace("dp-sgd \\u03b5=8", "dp-sgd $\\u7f51_<i>$ " + 8 * "very long ")
    document = json.loads(text)
    twin = next(cell for cell in document["cells"] if "roc" in cell["curves"])
    document["cells"].append({**twin, "id": "twin", "settings": {**twin["settings"], "shadows": 4}})
    for cell in document["cells"]:
        cell["gallery"] = []
    (tmp_path / "findings.json").write_text(json.dumps(document))
    page = page_of(tmp_path, tmp_path)
    assert "shadows 4" in page
    assert "<i>" not in page


def test_null_scores_are_shown_as_none(audit, tmp_path):
    document = json.loads((audit / "findings.json").read_text())
    for cell in document["cells"]:
        cell["gallery"] = []
        for score in cell["scores"].values():
            score.update(value=None, low=None, high=None)
    (tmp_path / "findings.json").write_text(json.dumps(document))
    assert "(not measured)" in page_of(tmp_path, tmp_path)


def test_same_findings_same_bytes(audit, tmp_path):
    """Without the seconds, which differ between two runs of one seed."""
    shutil.copytree(audit, tmp_path / "again")
    timing = json.loads((audit / "timing.json").read_text())
    (tmp_path / "again/timing.json").write_text(json.dumps({**timing, "total": 5.0}))
    without = page_of(tmp_path / "again", tmp_path, with_timing=False)
    assert without == page_of(audit, tmp_path, with_timing=False)
    assert 'data-timing="' not in without


def test_phantoms_are_shown(page):
    original = pictures()[0]
    assert any(image.shape == original.shape and (image == original).all() for image in embedded(page))
    assert "blurred" not in page


def test_patients_are_blurred_in_the_pixels(patients, tmp_path):
    page = page_of(patients, tmp_path)
    images = embedded(page)
    assert len(images) == page.count("<img") > 0
    assert "blurred" in page
    for original in pictures():
        for image in images:
            seen = np.asarray(Image.fromarray(image).resize(original.shape))
            assert structural_similarity(original, seen) < 0.6
            detail = [np.diff(each.astype(float), axis=1).ravel() for each in (original, seen)]
            if detail[1].std() > 0:
                assert np.corrcoef(detail)[0, 1] < 0.5
    for file in (patients / "gallery").iterdir():
        assert base64.b64encode(file.read_bytes()).decode() not in page


def test_patients_are_shown_to_who_asks(patients, tmp_path):
    original = pictures()[0]
    images = embedded(page_of(patients, tmp_path, show_images=True))
    assert any(image.shape == original.shape and (image == original).all() for image in images)


def test_a_blurred_image_holds_the_means_of_areas_alone():
    """Pixels in another order inside their areas give the same image: their order is not in it."""
    rng = np.random.default_rng(0)
    side = 8 * BLURRED_TO
    image = rng.integers(0, 256, (side, side), dtype=np.uint8)
    areas = image.reshape(BLURRED_TO, 8, BLURRED_TO, 8).transpose(0, 2, 1, 3).reshape(BLURRED_TO, BLURRED_TO, 64)
    mixed = rng.permuted(areas, axis=2).reshape(BLURRED_TO, BLURRED_TO, 8, 8).transpose(0, 2, 1, 3)
    other = np.ascontiguousarray(mixed.reshape(side, side))
    assert not (other == image).all()
    seen = [np.asarray(blurred(Image.fromarray(each)), dtype=int) for each in (image, other)]
    assert abs(seen[0] - seen[1]).max() <= 2, "but for rounding"


@pytest.mark.parametrize(("name", "message"), [("../x.png", "outside"), ("gallery/none.png", "missing or damaged")])
def test_images_that_cannot_be_shown(audit, tmp_path, name, message):
    document = json.loads((audit / "findings.json").read_text())
    next(cell for cell in document["cells"] if cell["gallery"])["gallery"][0]["prior"] = name
    shutil.copytree(audit, tmp_path / "a")
    (tmp_path / "a/findings.json").write_text(json.dumps(document))
    with pytest.raises(BadInput, match=message):
        page_of(tmp_path / "a", tmp_path)


@pytest.mark.parametrize("what", ["eps", "pipe", "large", "folder"])
def test_an_image_of_the_gallery_is_a_png_of_fair_size(audit, tmp_path, what):
    shutil.copytree(audit, tmp_path / "a")
    document = json.loads((tmp_path / "a/findings.json").read_text())
    shown = next(cell for cell in document["cells"] if cell["gallery"])["gallery"][0]
    path = tmp_path / "a" / shown["original"]
    path.unlink()
    if what == "eps":
        path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        Image.new("1", (20_000, 4_000)).save(path)
    with pytest.raises(BadInput, match=r"missing or damaged|20000 x 4000 pixels; at most 4,194,304"):
        page_of(tmp_path / "a", tmp_path)
