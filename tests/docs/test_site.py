"""The documentation site: all pages and all internal links exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install -e '.[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in strict mode, in which a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_each_page_is_in_the_navigation(site: Path) -> None:
    first = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert f'href="{path}"' in first, path


def test_fenced_code_is_rendered(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "```" not in page.read_text(), page.name
    assert (
        '<code class="language-p4">#include'
        in (site / "tutorials" / "own-program.html").read_text()
    )


def test_links_exist(site: Path) -> None:
    """All internal links of the built site exist, including links to figures and sources.

    mkdocs itself checks only links to pages.
    """
    links = 0
    for page in site.rglob("*.html"):
        if page.name in ("404.html", "search.html"):  # links of these pages are absolute
            continue
        for target in re.findall(r'(?:href|src)="([^"#:]+)["#]', page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            links += 1
    assert links > 500


def test_nothing_is_fetched_from_other_sites(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert fetched == [], page.name
