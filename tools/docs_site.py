"""What mkdocs is told beside mkdocs.yml: navigation out of docs/index.md, pages out of notebooks and linked files."""

import json
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
"""The end of a link: its target, and the anchor in it."""
REPOSITORY = "repository"
"""Where the site has the files that pages link to outside of docs/."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation is what docs/index.md lists."""
    docs = Path(config.docs_dir)
    config.nav = navigation((docs / "index.md").read_text(encoding="utf-8"), docs)
    return config


def navigation(index: str, docs: Path) -> list[Any]:
    """A section per heading of the index, with the pages of its list; a folder's index brings the whole folder."""
    found: list[Any] = [{"Start": "index.md"}]
    seen: set[str] = set()
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        pages: list[Any] = []
        for target in re.findall(r"^- \[[^\]]+\]\(([^)#\s]+)\)", text, re.MULTILINE):
            page = as_page(target)
            if page in seen:
                continue
            seen.add(page)
            folder = posixpath.dirname(page)
            if posixpath.basename(page) == "index.md":
                others = sorted(path.name for path in (docs / folder).glob("*.md") if path.name != "index.md")
                pages.append({folder.capitalize(): [page, *(f"{folder}/{name}" for name in others)]})
            else:
                pages.append(page)
        found.append({title.strip(): pages})
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for every notebook, and for every file outside of docs/ that a page links to."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = markdown_of(json.loads(notebook.content_string), posixpath.basename(notebook.src_uri))
        files.append(File.generated(config, as_page(notebook.src_uri), content=text))
    for path in sorted(outside(files)):
        text = (ROOT / path).read_text(encoding="utf-8")
        shown = text if path.endswith(".md") else f"# {path}\n\n```python\n{text}```\n"
        page = File.generated(config, f"{REPOSITORY}/{as_page(path)}", content=shown)
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    return files


def outside(files: Iterable[File]) -> set[str]:
    """The files of the repository that pages link to and that are not in docs/."""
    found = set()
    for file in files:
        if file.is_documentation_page():
            for target, _ in LINK.findall(file.content_string):
                path = from_root(file.src_uri, target)
                if path and not path.startswith("docs/") and (ROOT / path).is_file():
                    found.add(path)
    return found


def from_root(page: str, target: str) -> str | None:
    """A link's target, seen from the repository's root; None where it leads to another machine."""
    return None if "://" in target else posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))


def as_page(target: str) -> str:
    """The Markdown page that a file becomes."""
    return target if target.endswith(".md") else posixpath.splitext(target)[0] + ".md"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to notebooks, and out of docs/, lead to the pages that were made of them."""
    here = page.file.src_uri
    return LINK.sub(lambda link: f"]({moved(here, link[1])}{link[2] or ''})", markdown)


def moved(page: str, target: str) -> str:
    """Where a link of a page leads in the site."""
    path = from_root(page, target)
    if path is None:
        return target
    if page.startswith(f"{REPOSITORY}/"):  # a page that was brought here: its links are those of where it was
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page[len(REPOSITORY) + 1 :]), target))
    inside = path[len("docs/") :] if path.startswith("docs/") else f"{REPOSITORY}/{path}"
    made = inside.endswith(".ipynb") or inside.startswith(f"{REPOSITORY}/")
    return posixpath.relpath(as_page(inside) if made else inside, posixpath.dirname(page) or ".")


def markdown_of(notebook: dict[str, Any], name: str) -> str:
    """A notebook's cells in their order: text as it is, code in a block; below the title, the notebook itself."""
    cells = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip()
        cells.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    title, _, rest = "\n\n".join(cells).partition("\n")
    note = f'<a href="{name}" download>The notebook</a>. `make test` runs its cells in this order.'
    return f"{title}\n\n{note}\n{rest}\n"
