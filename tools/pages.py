"""Hooks of mkdocs: README as the first page, and links to files outside of docs/.

In the repository, a page links to other files by their relative paths. In the site, docs/ is the
root, and files from other folders are below it, with their paths in the repository.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FIRST = ROOT / "README.md"  # in the site: index.md
FENCE = re.compile(r"^(```\w+) .*$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)#:]+)(?=[)#])")


def site_path(path: Path) -> Path:
    """Return the path in the site of a file of the repository."""
    if path == FIRST:
        return Path("index.md")
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT)


def for_site(markdown: str, page: Path) -> str:
    """Return the text of a page with the links of the site and without file names after fences."""
    folder = site_path(page).parent

    def moved(match: re.Match[str]) -> str:
        target = (page.parent / match[1]).resolve()
        return os.path.relpath(site_path(target), folder)

    return LINK.sub(moved, FENCE.sub(r"\1", markdown))


def linked(page: Path) -> set[Path]:
    """Return the files outside of docs/ that a page links to."""
    targets = ((page.parent / target).resolve() for target in LINK.findall(page.read_text()))
    return {path for path in targets if path.is_file() and not path.is_relative_to(DOCS)}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add README and all files that README and the pages link to."""
    pages = [FIRST, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    for path in sorted(set.union(*map(linked, pages)) - {FIRST}):
        files.append(File.generated(config, str(site_path(path)), abs_src_path=str(path)))
    files.append(File.generated(config, "index.md", content=FIRST.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page."""
    source = page.file.src_uri
    if source == "index.md":
        return for_site(markdown, FIRST)
    inside = DOCS / source
    return for_site(markdown, inside if inside.is_file() else ROOT / source)
