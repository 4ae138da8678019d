"""Pipelines in BMv2 JSON: structured code becomes a graph of tables and conditionals.

Statements between tables become actions of hidden tables without a key, because BMv2's graph has
only tables and conditionals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from minip4.compiler import ir
from minip4.compiler.bmv2.actions import action_body
from minip4.compiler.bmv2.expressions import Json, expression, source_info, target
from minip4.compiler.bmv2.tables import table
from minip4.compiler.errors import P4Error
from minip4.compiler.types import BOOL

Edge = Callable[[str | None], None]


@dataclass(slots=True)
class Ids:
    """Numbers that are unique among all pipelines."""

    # numbers of actions by id() of the ir.Action
    actions: dict[int, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    json_actions: list[Json] = field(default_factory=list)
    tables: int = 0
    conditionals: int = 0
    profiles: int = 0
    _next: dict[str, int] = field(default_factory=dict)  # map from name to the next number to try

    def unique(self, wanted: str) -> str:
        name, number = wanted, self._next.get(wanted, 0)
        while name in self.names:
            name, number = f"{wanted}_{number}", number + 1
        self._next[wanted] = number
        self.names.add(name)
        return name


def pipeline(number: int, p: ir.Pipeline, ids: Ids) -> Json:
    graph = _Graph(ids)
    graph.code(p.body)
    graph.close(None)
    tables = graph.tables()
    profiles = []
    for profile in p.profiles:
        profiles.append(_profile(ids.profiles, profile))
        ids.profiles += 1
    return {
        "name": p.name,
        "id": number,
        **source_info(p.source),
        "init_table": graph.start["init_table"],
        "tables": tables,
        "action_profiles": profiles,
        "conditionals": graph.conditionals,
    }


def _profile(number: int, p: ir.Profile) -> Json:
    result: Json = {
        "name": p.name,
        "id": number,
        **source_info(p.source),
        "max_size": p.size,
    }
    if p.selector_algorithm is not None:
        inputs = [target(e) for e in p.selector_inputs]
        result["selector"] = {"algo": p.selector_algorithm, "input": inputs}
    return result


def _edge(node: Json, key: str) -> Edge:
    def patch(name: str | None) -> None:
        node[key] = name

    return patch


class _Graph:
    """A graph that is built in order; `open` contains the edges to the next node."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.start: Json = {"init_table": None}
        self.open: list[Edge] = [_edge(self.start, "init_table")]
        self.conditionals: list[Json] = []
        self._tables: list[tuple[Json, ir.Table | None]] = []
        self._labels: dict[int, list[Edge]] = {}
        self._table_ids: dict[str, int] = {}

    def close(self, target_: str | None) -> None:
        for edge in self.open:
            edge(target_)
        self.open = []

    def code(self, statements: list[ir.Statement]) -> None:
        group: list[ir.Statement] = []
        for statement in statements:
            if not self.open:
                return  # unreachable
            if isinstance(statement, ir.Operation | ir.Atomic):
                group.append(statement)
                continue
            self._hidden(group)
            group = []
            self._statement(statement)
        self._hidden(group)

    def _statement(self, statement: ir.Statement) -> None:
        match statement:
            case ir.If():
                self._if(statement)
            case ir.Labelled():
                self._labels[statement.label] = []
                self.code(statement.body)
                self.open += self._labels.pop(statement.label)
            case ir.Leave():
                self._labels[statement.label] += self.open
                self.open = []
            case ir.Loop():
                head = self._hidden_table([], statement)
                self.code(statement.body)
                self.close(head)
            case ir.Exit():
                self.close(None)
            case ir.Apply():
                self._apply(statement)
            case _:
                raise AssertionError(statement)

    def _hidden(self, group: list[ir.Statement]) -> None:
        if group and self.open:
            self._hidden_table(group, group[0])

    def _hidden_table(self, body: list[ir.Statement], at: ir.Statement) -> str:
        action_name = self._ids.unique("act")
        name = self._ids.unique("tbl_" + action_name)
        number = len(self._ids.json_actions)
        self._ids.json_actions.append(
            {"name": action_name, "id": number, "runtime_data": [], "primitives": action_body(body)}
        )
        next_tables: Json = {action_name: None}
        node: Json = {
            "name": name,
            "id": self._next_table(),
            **source_info(at.source),
            "key": [],
            "match_type": "exact",
            "type": "simple",
            "max_size": 1024,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": [number],
            "actions": [action_name],
            "base_default_next": None,
            "next_tables": next_tables,
            "default_entry": {
                "action_id": number,
                "action_const": True,
                "action_data": [],
                "action_entry_const": True,
            },
        }
        self._tables.append((node, None))
        self.close(name)
        self.open = [_edge(node, "base_default_next"), _edge(next_tables, action_name)]
        return name

    def _next_table(self) -> int:
        self._ids.tables += 1
        return self._ids.tables - 1

    def _if(self, statement: ir.If) -> None:
        node = self._conditional(statement)
        self.close(node["name"])
        self.open = [_edge(node, "true_next")]
        self.code(statement.then)
        after = self.open
        self.open = [_edge(node, "false_next")]
        self.code(statement.otherwise)
        self.open += after

    def _conditional(self, statement: ir.If) -> Json:
        node: Json = {
            "name": self._ids.unique("node"),
            "id": self._ids.conditionals,
            **source_info(statement.source),
            "expression": expression(statement.condition),
            "true_next": None,
            "false_next": None,
        }
        self._ids.conditionals += 1
        self.conditionals.append(node)
        return node

    def _apply(self, apply: ir.Apply) -> None:
        t = apply.table
        ids = [self._ids.actions[id(a)] for a in t.actions]
        default = None if t.default_action is None else self._ids.actions[id(t.default_action)]
        if t.site is not None:
            number = ir.Constant(t.site.type, apply.site)
            self._hidden([ir.Assign(apply.source, t.site, number)])
        table_id = self._next_table() if apply.site == 0 else self._table_ids[t.name]
        self._table_ids[t.name] = table_id
        node = table(table_id, t, ids, default, self._ids.actions)
        # later, tables() merges all nodes with the same name
        node["name"] = f"{t.name}#{apply.site}"
        self._tables.append((node, t))
        self.close(node["name"])
        next_tables: Json = {}
        node["next_tables"] = next_tables
        base = _edge(node, "base_default_next")
        if not apply.has_branches:
            self.open = [base, *(_edge(next_tables, a.name) for a in t.actions)]
            for a in t.actions:
                next_tables[a.name] = None
        elif apply.actions is None:
            self._branches(
                [
                    ([_edge(next_tables, "__HIT__")], apply.hit),
                    ([_edge(next_tables, "__MISS__")], apply.miss),
                ]
            )
        else:
            branches = [
                ([_edge(next_tables, a.name)], apply.actions[a.name])
                for a in t.actions
                if a.name in apply.actions
            ]
            others = [_edge(next_tables, a.name) for a in t.actions if a.name not in apply.actions]
            branches.append(([base, *others], apply.default))
            self._branches(branches)

    def _branches(self, branches: list[tuple[list[Edge], list[ir.Statement]]]) -> None:
        after: list[Edge] = []
        for edges, body in branches:
            self.open = edges
            self.code(body)
            after += self.open
        self.open = after

    # -- one node for each table

    def tables(self) -> list[Json]:
        """Return the tables.

        If a table is applied at several locations, its site (the number of the location) selects
        the code after the table.
        """
        groups: dict[str, list[Json]] = {}
        for node, origin in self._tables:
            groups.setdefault(node["name"] if origin is None else origin.name, []).append(node)
        canonical = {node["name"]: name for name, nodes in groups.items() for node in nodes}
        for node, _ in self._tables:
            _rename_targets(node, canonical)
        for other in [self.start, *self.conditionals]:
            _rename_targets(other, canonical)
        origins = {t.name: t for _, t in self._tables if t is not None}
        for name, nodes in groups.items():
            if any(_successors(node) != _successors(nodes[0]) for node in nodes):
                self._dispatch(nodes, origins[name])
            nodes[0]["name"] = name
        return [nodes[0] for nodes in groups.values()]

    def _dispatch(self, nodes: list[Json], t: ir.Table) -> None:
        """Connect the first node to the code of all locations. The site field selects the code."""
        assert t.site is not None
        by_hit = any("__HIT__" in node["next_tables"] for node in nodes)
        for node in nodes:
            if by_hit and "__HIT__" not in node["next_tables"]:
                if len({*node["next_tables"].values(), node["base_default_next"]}) > 1:
                    raise P4Error(
                        f"table {t.name} is used with hit or miss at one location "
                        f"and with action_run at another",
                        t.source,
                    )
                anywhere = node["base_default_next"]
                node["base_default_next"] = None
                node["next_tables"] = {"__HIT__": anywhere, "__MISS__": anywhere}
        first = nodes[0]
        for key in first["next_tables"]:
            targets = [node["next_tables"][key] for node in nodes]
            first["next_tables"][key] = self._by_site(targets, t)
        targets = [node["base_default_next"] for node in nodes]
        first["base_default_next"] = self._by_site(targets, t)

    def _by_site(self, targets: list[str | None], t: ir.Table) -> str | None:
        assert t.site is not None
        result = targets[-1]
        for site in reversed(range(len(targets) - 1)):
            if targets[site] == result:
                continue
            here = ir.Binary(BOOL, "==", t.site, ir.Constant(t.site.type, site))
            node = self._conditional(ir.If(t.source, here, [], []))
            node["true_next"], node["false_next"] = targets[site], result
            result = node["name"]
        return result


def _rename_targets(node: Json, names: dict[str, str]) -> None:
    for key in ("init_table", "true_next", "false_next", "base_default_next"):
        if node.get(key) is not None:
            node[key] = names.get(node[key], node[key])
    for key, name in node.get("next_tables", {}).items():
        node["next_tables"][key] = names.get(name, name)


def _successors(table_node: Json) -> tuple[str | None, Json]:
    return table_node["base_default_next"], table_node["next_tables"]
