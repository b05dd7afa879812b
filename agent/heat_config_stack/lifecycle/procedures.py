"""The procedures of a stack that is opened for work: one is carried out at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.positions import Json
from heat_config_stack.definition.procedures import UNDEPLOY
from heat_config_stack.lifecycle import procedure
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import records
from heat_config_stack.records.records import COMPLETE, DELETE, FAILED, IN_PROGRESS, ProcedureRecord


class Procedures:
    """Carries out procedures, each to its end."""

    def __init__(self, finish: Callable[[procedure.Run], None]) -> None:
        """Take the function that works on a run until it has ended."""
        self._finish = finish

    def carry_out(self, stack: Stack, name: str, inputs: Mapping[str, Json]) -> ProcedureRecord:
        """Carry out a procedure; one that an earlier process began is finished first, and not begun again.

        Raises `Invalid`, UsageError, Refused.
        """
        if stack.record.action == records.SUSPEND:
            raise UsageError(f"the stack {stack.name} is suspended", hint="resume it first")
        begun = procedure.unfinished(stack)
        if begun is not None:
            self._finish(procedure.go_on(stack, begun))
            if (begun.name, begun.inputs) == (name, dict(inputs)):
                return begun
        run = procedure.begin(stack, name, inputs)
        self._finish(run)
        return run.record

    def make_way(self, stack: Stack) -> None:
        """Finish the procedure that an earlier process began, before the stack changes."""
        begun = procedure.unfinished(stack) if stack.defined and stack.record.status != IN_PROGRESS else None
        if begun is not None:
            self._finish(procedure.go_on(stack, begun))
        undeployed = procedure.last(stack, UNDEPLOY)
        if undeployed is not None:
            stack.drop(undeployed)

    def forget(self, stack: Stack) -> None:
        """Drop the records of all runs."""
        for record in list(stack.world.store.procedures.values()):
            stack.drop(record)

    def undeploy(self, stack: Stack) -> bool:
        """Carry out the procedure that deletes the operations, if there is one; return whether it has succeeded."""
        procedure.abandon(stack)
        if stack.defined is None or UNDEPLOY not in stack.defined.procedures or not stack.records():
            return True
        record = procedure.last(stack, UNDEPLOY)
        if record is None or record.status != COMPLETE:
            run = procedure.begin(stack, UNDEPLOY, {}) if record is None else procedure.go_on(stack, record)
            self._finish(run)
            record = run.record
        if record.status == COMPLETE:
            return True
        of = stack.record
        of.action, of.status, of.reason = DELETE, FAILED, f"the workflow {UNDEPLOY} failed: {record.reason}"
        stack.keep(of)
        return False
