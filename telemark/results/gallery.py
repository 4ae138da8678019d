"""Index of the gallery in index.html: paper, figure and reproduced numbers of each entry."""

from collections.abc import Sequence

from telemark import REPOSITORY
from telemark.results import docstring
from telemark.results.markup import count, image, marked, row, table, text
from telemark.results.section import Result

PREFIX = "gallery_"  # of the names of experiments
COLUMNS = ("Experiment", "Paper", "Figure", "Reproduced")


def gallery(results: Sequence[Result]) -> str:
    """Render the index of all results that belong to the gallery; "" if there are none."""
    entries = [each for each in results if each.summary["experiment"].startswith(PREFIX)]
    if not entries:
        return ""
    return (
        '<section id="gallery" class="cards" aria-labelledby="gallery-heading">\n'
        '<h2 id="gallery-heading">Gallery of reproductions</h2>\n'
        f"{table(COLUMNS, map(_row, entries), 'gallery')}\n</section>"
    )


def _row(result: Result) -> str:
    name = result.summary["experiment"]
    script = REPOSITORY / "experiments" / f"{name}.py"
    paper = docstring.read_script(script).paper if script.is_file() else ""
    svg = result.folder / f"{name}.svg"
    picture = image(svg, f"Small figure of {name}") if svg.is_file() else ""
    link = f'<a href="#{text(result.name)}">'
    cells = f"{link}{text(result.name)}</a>", text(paper), f"{link}{picture}</a>", _numbers(result)
    return row(COLUMNS, cells)


def _numbers(result: Result) -> str:
    """Render how many published numbers are reproduced."""
    numbers = result.summary.get("reproductions", [])
    reproduced = sum(each["verdict"] == "reproduced" for each in numbers)
    label = f"{reproduced} of {count(len(numbers), 'number')}"
    return marked(label, is_good=True) if 0 < reproduced == len(numbers) else text(label)
