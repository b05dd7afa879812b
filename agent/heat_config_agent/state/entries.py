"""The entries of a journal, with an index: a pass looks only at those that can concern it.

A stack offers each of its deployments by itself. Without the index, each offer would cost as much as all deployments
before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from heat_config_agent.deployments import cleanup
from heat_config_agent.model.entry import Entry


class Entries(dict[str, Entry]):
    """Entries by their keys. Change them one by one: `update` and similar methods would bypass the index."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        super().__init__(entries)
        self._of_source: dict[str, set[str]] | None = None
        """The keys of each source; None until the first pass."""
        self._always: set[str] = set()
        """The keys that concern every pass: deployments that are not settled, or that have a cleanup."""

    def __setitem__(self, key: str, entry: Entry) -> None:
        former = self.get(key)
        super().__setitem__(key, entry)
        if self._of_source is not None:
            if former is not None and former.source != entry.source:
                self._of_source[former.source].discard(key)
            self._add(self._of_source, entry)

    def __delitem__(self, key: str) -> None:
        entry = self[key]
        super().__delitem__(key)
        self._always.discard(key)
        if self._of_source is not None:
            self._of_source[entry.source].discard(key)

    def concerning(
        self, keys: Iterable[str], sources: Collection[str]
    ) -> Mapping[str, Entry]:
        """Return the entries that matter for a pass with these deployments, the oldest first.

        `keys` are those of the deployments, and `sources` are the sources that answered. Deployments of other sources
        that are settled, and leave nothing to clean up, are left out.
        """
        if self._of_source is None:
            self._of_source = {}
            for entry in self.values():
                self._add(self._of_source, entry)
        chosen = self._always.union(
            *(self._of_source.get(source, ()) for source in sources)
        )
        chosen.update(key for key in keys if key in self)
        return {
            entry.key: entry
            for entry in sorted(map(self.__getitem__, chosen), key=_order)
        }

    def _add(self, of_source: dict[str, set[str]], entry: Entry) -> None:
        of_source.setdefault(entry.source, set()).add(entry.key)
        if (
            entry.settled
            and entry.action != cleanup.ACTION
            and not cleanup.key_of(entry)
        ):
            self._always.discard(entry.key)
        else:
            self._always.add(entry.key)


def _order(entry: Entry) -> tuple[float, str]:
    return entry.accepted, entry.key
