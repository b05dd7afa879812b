"""The end of a run on record: a result, a repetition, or a wait for a reboot.

`engine.conclusion` decides which of these follows from the end of a run.
"""

from __future__ import annotations

from heat_config_agent.deployments import jobs, plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.conclusion import REBOOTS, BrokenOff, Ended, conclude, retry_delay
from heat_config_agent.engine.launch import Launcher
from heat_config_agent.engine.mailroom import Mailroom
from heat_config_agent.model.deployment import Result
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.runs import result, run_folder
from heat_config_agent.state.attempts import Attempts
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes
from heat_config_hooks.reply import REBOOT, UNKNOWN, Reply, failure, status_code

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.engine.conclusion import Repeat

PLANNING, BEGINNING, CONCLUDING = "planning", "beginning", "making a result of what was left by"
"""The work on a deployment, as `state.attempts` names it."""


class Completion:
    """Puts on record what follows from the end of runs, and answers deployments that need no run."""

    def __init__(
        self,
        journal: Journal,
        launcher: Launcher,
        mailroom: Mailroom,
        attempts: Attempts,
    ) -> None:
        self._journal = journal
        self._launcher = launcher
        self._mailroom = mailroom
        self._attempts = attempts

    def conclude(self, step: Step, recorded: str, ending: str, *, wanted: bool) -> Repeat | None:
        """Put on record what follows from the end of a run; return why the deployment is run again, None if it is not.

        `recorded` is what the supervisor wrote, and `ending` why the agent ended the run. `wanted` is True if a source
        still has the deployment. Raises StateError.
        """
        key = step.deployment.key
        if recorded != run_folder.UNSTARTED and self._give_up(step, CONCLUDING, recorded):
            return None
        entry = self._journal.entries[key]
        run = run_of(entry)
        conclusion = conclude(self._launcher.end_of(step.deployment, run, recorded, ending), entry, step.job)
        if isinstance(conclusion, Ended):
            return self._take_reply(step, run, conclusion, wanted=wanted)
        if isinstance(conclusion, BrokenOff):
            self.break_off(step, conclusion)
            return None
        if conclusion == "not started":
            self._journal.not_started(key)
        else:
            self._journal.interrupted(key)
        return conclusion

    def answer(self, step: Step) -> None:
        """Put the result of a step on record that is known without a run."""
        if not self.give_up(step):
            self.finish(step, step.reply or {}, step.reason)

    def break_off(self, step: Step, conclusion: BrokenOff) -> None:
        """Put on record that a deployment has failed, with the output of its run so far."""
        reply = failure(conclusion.code, conclusion.reason, *self._launcher.output(step.deployment))
        self.finish(step, reply, conclusion.reason)

    def reboot_failed(self, entry: Entry, reason: str) -> None:
        """Put on record that a deployment has failed because the machine cannot be rebooted, as its command asked."""
        deployment = plan.deployment_of(entry)
        job = jobs.of_run(deployment, entry.run)
        step = Step(verb=Verb.RESUME, deployment=deployment, reason=reason, job=job)
        self.break_off(step, BrokenOff(UNKNOWN, f"it asked for a reboot, and {reason}"))

    def _lack(self, step: Step, run: Run, code: int | None) -> str:
        """Return what the machine lacked at the end of a run; empty if nothing."""
        outputs = [run.outputs] if step.deployment.outputs else []
        return run_folder.shortage_of_output([self._launcher.folder(step.deployment.key), *outputs], run.working, code)

    def finish(self, step: Step, reply: Reply, reason: str = "", lack: str = "") -> None:
        """Put a deployment's result on record. It is sent once it is on disk, see `Mailroom.publish`.

        `lack` says what the machine lacked at the end of its run.
        """
        deployment = self._launcher.revealed(step.deployment) or step.deployment
        entry = self._journal.entries[step.deployment.key]
        attempts = entry.attempts + (entry.state is State.RUNNING) if entry.attempts else 0
        self._record(step, result.make(reply, deployment, reason, self._attempts.alive, attempts=attempts, lack=lack))

    def give_up(self, step: Step) -> bool:
        """Answer a deployment as failed if the agent was aborted again and again before it ran.

        Returns True if that was so.
        """
        return self._give_up(step, BEGINNING) or self._give_up(step, PLANNING)

    def _give_up(self, step: Step, work: str, recorded: str = "") -> bool:
        """Answer a deployment as failed if the agent was aborted again and again at this work on it.

        Neither the deployment nor the output of its run is read for that: one of them made the agent hang.
        """
        reason = self._attempts.hopeless(work, step.deployment.key)
        if reason:
            reason = f"{reason}; its command has ended with exit code {recorded}" if recorded else reason
            values = {"deploy_stdout": "", "deploy_stderr": f"{reason}\n", "deploy_status_code": UNKNOWN}
            self._record(step, Result(values=values, failed=True, reason=reason))
            self._attempts.forget(step.deployment.key)
        return bool(reason)

    def _take_reply(self, step: Step, run: Run, ended: Ended, *, wanted: bool) -> Repeat | None:
        """Have the hook make a reply of a command's end, and finish the deployment with it.

        Returns `reboot` if the command has asked for a reboot instead, and `retry` if its code is for
        another attempt.
        """
        key = step.deployment.key
        reply = self._launcher.reply(step, run, ended.code)
        if wanted and self._try_again(step, run, reply):
            return "retry"
        if status_code(reply) != REBOOT or not wanted:
            self.finish(step, reply, lack=self._lack(step, run, status_code(reply)))
            return None
        if self._journal.entries[key].reboots >= REBOOTS:
            self.finish(step, reply, f"it asked for a reboot more than {REBOOTS} times")
            return None
        self._journal.reboot(key)
        return "reboot"

    def _try_again(self, step: Step, run: Run, reply: Reply) -> bool:
        """Put on record that the command is run again, if the option `retry` says so for its reply; else return False.

        `Job.retry` says how often, and the journal how often that was.
        """
        key = step.deployment.key
        entry = self._journal.entries[key]
        now = processes.since_boot()
        lasted = now - run.began
        if run.boot != processes.boot_id():  # the machine went down when the command had ended
            lasted = (run_folder.ended_at(self._launcher.folder(key), run) or 0.0) - (entry.started or 0.0)
        lasted = max(lasted, 0.0)
        delay = retry_delay(status_code(reply), step.job.retry if step.job else None, entry, lasted)
        if delay is None:
            return False
        deployment = self._launcher.revealed(step.deployment) or step.deployment
        reason = result.make(reply, deployment, alive=self._attempts.alive).reason
        self._journal.retry(key, reason, spent=entry.spent + lasted + delay, due=now + delay)
        return True

    def _record(self, step: Step, outcome: Result) -> None:
        key = step.deployment.key
        run = self._journal.entries[key].run
        ended = run_folder.ended_at(self._launcher.folder(key), run) if run and step.verb is Verb.RESUME else None
        self._mailroom.finish(step, outcome, ended)


def run_of(entry: Entry) -> Run:
    """Return the run of an entry. Raises StateError if the journal has none."""
    if entry.run is None:
        raise StateError(f"the journal says that {entry.key} is running, but not as which process")
    return entry.run
