"""Intermediate representation (ir): flat storage, scalar expressions, structured control flow.

Lowering (minip4.compiler.lower) creates it, and back ends (minip4.compiler.bmv2) convert it. It is
independent of the target.
"""

# ruff: noqa: F403  this package re-exports all names of its modules

from minip4.compiler.ir.control import *
from minip4.compiler.ir.expressions import *
from minip4.compiler.ir.objects import *
from minip4.compiler.ir.operations import *
from minip4.compiler.ir.parsing import *
from minip4.compiler.ir.program import *
