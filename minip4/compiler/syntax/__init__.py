"""The syntax tree of a P4-16 program, which the parser builds and the checker decorates.

Fields with `init=False` are decorations, which are empty until the checker has run. Nodes are equal
only if they are identical, so they can be keys of dictionaries. Section numbers are those of the
P4-16 spec 1.2.5.
"""

# ruff: noqa: F403  this package re-exports all names of its modules

from minip4.compiler.source import Source as Source
from minip4.compiler.syntax.declarations import *
from minip4.compiler.syntax.expressions import *
from minip4.compiler.syntax.node import *
from minip4.compiler.syntax.statements import *
