"""Hooks of mkdocs: README as the first page, and what pages link to outside of docs/.

In the repository, pages in docs/ reach the rest by `../`, and README reaches them by `docs/`. In
the site they lie beside each other, at its root.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
FIRST = "README.md"  # whose page is index.md
LINK = re.compile(r"(\]\()(?:\.\./|docs/)(?=[^)]*\))")
FENCE = re.compile(r"^(```\w+) .*$", re.MULTILINE)
TARGET = re.compile(r"\]\(([^)#:]+)")


def moved(markdown: str) -> str:
    """A page's text, with links as they are in the site; and fences without the names of files,
    which its Markdown does not know."""
    plain = FENCE.sub(r"\1", markdown)
    return LINK.sub(r"\1", plain).replace(f"]({FIRST}", "](index.md")


def linked(page: Path) -> set[Path]:
    """Files outside of docs/ that a page links to, from the root."""
    targets = ((page.parent / target).resolve() for target in TARGET.findall(page.read_text()))
    return {
        target.relative_to(ROOT) for target in targets
        if target.is_file() and not target.is_relative_to(ROOT / "docs")
    }  # fmt: skip


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages that the navigation does not name belong to methods that came later."""
    navigation = config.nav or []
    named = {page for entry in navigation for pages in entry.values()
             for page in (pages if isinstance(pages, list) else [entry])
             for page in page.values()}  # fmt: skip
    (methods,) = [entry["Methods"] for entry in navigation if "Methods" in entry]
    for path in sorted((ROOT / "docs").glob("*.md")):
        if path.name not in named:
            methods.append({path.read_text().partition("\n")[0].lstrip("# "): path.name})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add README, and all that it and the pages link to."""
    pages = [ROOT / FIRST, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = set.union(*map(linked, pages)) - {Path(FIRST)}
    files.append(File.generated(config, "index.md", content=(ROOT / FIRST).read_text()))
    for path in sorted(found):
        files.append(File.generated(config, str(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as they are in the site."""
    return moved(markdown)
