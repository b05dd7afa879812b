"""Text for people: one line without control characters, and durations."""

from __future__ import annotations

from heat_config_hooks import processes

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.model.entry import Entry


def plain(text: str) -> str:
    """Return text from outside with control characters replaced, so that it cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text
    )


def line(text: str) -> str:
    """Return text from outside in one line, without control characters."""
    return (
        text
        if text.isprintable()
        else plain(text.replace("\n", " ").replace("\t", " "))
    )


def duration(seconds: float) -> str:
    """Return a duration for people: 0.02 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def next_attempt(entry: Entry) -> str:
    """Return in words when the command of a deployment with the option `retry` is run again."""
    same_boot = entry.run is not None and entry.run.boot == processes.boot_id()
    delay = entry.due - processes.since_boot() if same_boot else 0.0
    return f"attempt {entry.attempts + 1} begins {f'in {duration(delay)}' if delay > 0 else 'now'}"
