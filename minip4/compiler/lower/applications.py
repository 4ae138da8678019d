"""Shared controls, which have several applications but one instance of tables and actions.

If an action of such a control exits, it copies out the arguments of the current application. The
site field of the control has the number of this application.
"""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Instance
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower.context import Application, Context, Frame, Restart
from minip4.compiler.types import BOOL, Bits

SITE = Bits(32)  # type of the field that has the number of an application


class Applications:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._count: dict[Instance, int] = {}
        self._sites: dict[Instance, ir.Field] = {}
        # for each control, its exits; for each exit, the application in which it was lowered, and
        # the code that runs in other applications
        self._exits: dict[Instance, list[tuple[Application, list[ir.Statement]]]] = {}
        self._appliers: dict[Instance, Instance | None] = {}
        # whether an exit in the control must copy out arguments
        self._exiting: dict[Instance, bool] = {}

    def enter(self, instance: Instance, source: syntax.Source) -> Application | None:
        """Begin a new application of a control if it is shared."""
        self._check_applier(instance, source)
        if not any(name == instance.name for name, _ in self.context.shared):
            return None
        number = self._count.get(instance, 0)
        self._count[instance] = number + 1
        if (instance.name, syntax.Exit) not in self.context.shared:
            return Application(instance, number, None)
        if instance not in self._sites:
            self._sites[instance] = self.context.temporary_field(SITE, source)
        site = self._sites[instance]
        self.context.emit(ir.Assign(source, site, ir.Constant(SITE, number)))
        return Application(instance, number, site)

    def _check_applier(self, instance: Instance, source: syntax.Source) -> None:
        """Reject two controls that apply the same instance if an action of the instance exits.

        An exit in the action would have to know which of the two controls is running.
        """
        applier = self.context.instance
        if self._appliers.setdefault(instance, applier) is applier or instance not in self._exiting:
            return
        if self._exiting[instance] or any(frame.copy_out for frame in self.context.frames):
            message = f"{instance.name}, an action of which exits, is applied by two controls"
            raise P4Error(message, source, "an instance for each")

    def exit_in_action(self) -> None:
        """Record the controls that enclose an exit."""
        frames = self.context.frames
        for i, frame in enumerate(frames):
            if frame.instance is not None:
                is_inside = any(outer.copy_out for outer in frames[:i])
                self._exiting[frame.instance] = self._exiting.get(frame.instance, False) | is_inside

    def exit(self, frame: Frame, application: Application, source: syntax.Source) -> None:
        """Copy out arguments at an exit in an action.

        The action is lowered in the first application of the control.
        """
        branch = self._copies(frame, application, source)
        self.context.emit(branch)
        exits = self._exits.setdefault(application.instance, [])
        exits.append((application, branch.otherwise))

    def leave(self, frame: Frame, application: Application, source: syntax.Source) -> None:
        """Add the copy-out of this apply() to the exits recorded so far."""
        exits = self._exits.get(application.instance, [])
        for met, otherwise in exits:
            if met is not application:
                otherwise.append(self._copies(frame, application, source))

    def _copies(self, frame: Frame, application: Application, source: syntax.Source) -> ir.If:
        if application.site is None:
            raise Restart(application.instance.name, syntax.Exit)
        with self.context.collecting() as copies:
            for copy in frame.copy_out:
                copy()
        number = ir.Constant(SITE, application.number)
        here = arithmetic.binary("==", BOOL, application.site, number)
        return ir.If(source, here, copies, [])
