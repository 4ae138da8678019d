"""Tables of docs/reference/python-api.md, made from signatures and docstrings."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = {
    "Run and network": [
        "telemark/session/cli.py", "telemark/session/run.py", "telemark/network.py",
        "telemark/topology/links.py", "telemark/topology/routes.py", "telemark/capacity_probe.py",
        "telemark/errors.py",
    ],
    "Traffic and applications": [
        "telemark/traffic/flows.py", "telemark/traffic/tcp.py", "telemark/traffic/patterns.py",
        "telemark/traffic/received.py", "telemark/apps/application.py",
        "telemark/apps/quic.py", "telemark/watch/display.py",
    ],
    "Active measurement": [
        "telemark/apps/stamp/*.py", "telemark/apps/icmp.py", "telemark/apps/ipv6.py",
    ],
    "Accounting and results": [
        "telemark/accounting/packet_accounting.py", "telemark/accounting/pcap.py",
        "telemark/results/report.py", "telemark/results/plots.py",
        "telemark/results/goodness_of_fit.py", "telemark/results/goodness_of_fit.py",
        "telemark/sweep/runs.py", "telemark/metrics/*.py",
    ],
    "Topologies": ["topologies/*.py"],
    "Controllers": ["controllers/*.py"],
    "Alternate marking": ["controllers/ampm/*.py"],
    "INT": ["controllers/int/*.py", "collectors/int/*.py", "collectors/int/export/*.py"],
    "RDMA": ["controllers/roce/*.py", "collectors/roce/*.py"],
    "DTA": ["controllers/dta/*.py", "collectors/dta/*.py"],
    "eBPF": ["ebpf/*/*.py"],
    "minip4": ["minip4/compiler/__init__.py"],
}  # fmt: skip


def _summary(node: ast.AST) -> str:
    """Return the first paragraph of a docstring on one line."""
    text = ast.get_docstring(node) or ""  # type: ignore[arg-type]
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    names = ast.unparse(_without_annotations(node.args))
    names = names.removeprefix("self, ").removeprefix("cls, ")
    return "" if names in ("self", "cls") else names


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs):
        for argument in group:
            argument.annotation = None
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            rest.annotation = None
    return arguments


def _fields(node: ast.ClassDef) -> str:
    """Return the fields of a dataclass or named tuple as a signature."""
    found = []
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            if each.target.id.startswith("_"):
                continue
            default = "" if each.value is None else f"={ast.unparse(each.value)}"
            found.append(each.target.id + (default if len(default) < 40 else "=..."))
    return ", ".join(found)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _rows(tree: ast.Module) -> list[str]:
    rows = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(node.name):
            prefix = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
            rows.append((f"{prefix}{node.name}({_signature(node)})", _summary(node)))
        if isinstance(node, ast.ClassDef) and _is_public(node.name):
            methods = [
                e for e in node.body if isinstance(e, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            made = [method for method in methods if method.name == "__init__"]
            call = _signature(made[0]) if made else _fields(node)
            rows.append((f"{node.name}({call})" if call else node.name, _summary(node)))
            for method in methods:
                if _is_public(method.name) and ast.get_docstring(method):
                    is_value = any("property" in ast.unparse(d) for d in method.decorator_list)
                    shape = "" if is_value else f"({_signature(method)})"
                    prefix = "await " if isinstance(method, ast.AsyncFunctionDef) else ""
                    rows.append((f"{prefix}{node.name}.{method.name}{shape}", _summary(method)))
    return [f"| `{name}` | {text} |".replace("``", "` `") for name, text in rows]


def tables() -> str:
    """Return a section per subject, with a table per module."""
    parts = []
    for section, patterns in SECTIONS.items():
        parts.append(f"## {section}")
        for path in [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]:
            tree = ast.parse(path.read_text())
            rows = _rows(tree)
            if rows:
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                parts.append(f"### {module.removesuffix('.__init__')}\n\n{_summary(tree)}")
                parts.append("\n".join(["| name | description |", "|---|---|", *rows]))
    return "\n\n".join(parts)
