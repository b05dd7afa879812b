"""The answers of sources: which documents are put in force, which are not and why, and which are still missing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from heat_config_agent.deployments.metadata import Reader
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.log import Warned
from heat_config_agent.settings.schema import TRANSPORTS
from heat_config_agent.sources.active import Steering
from heat_config_agent.sources.document_text import same
from heat_config_agent.sources.documents import Documents, in_force, refusal
from heat_config_agent.sources.poller import Answer, Collection
from heat_config_agent.sources.transports import Transport
from heat_config_agent.state.attempts import Attempts
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_READING = "reading the newest document"
"""The work on a document, as `state.attempts` names it."""


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """The consequences of a few answers."""

    documents_changed: bool
    """True if another document is in force."""
    sources_changed: bool
    """True if something has changed that decides which sources are used."""
    troubles: tuple[str, ...]
    """Troubles that were not reported before."""
    notes: tuple[str, ...]
    is_back: bool = False
    """True if a source answers again that has failed, so that results may be delivered again too."""


class Intake:
    """Puts the documents in force that sources answer with, and then lets sources discard their copies."""

    def __init__(
        self,
        documents: Documents,
        steering: Steering,
        collection: Collection,
        reader: Reader,
        attempts: Attempts,
    ) -> None:
        """Begin with the documents that the last agent has stored."""
        self._documents = documents
        self._steering = steering
        self._collection = collection
        self._reader = reader
        self._attempts = attempts
        self._from_before = set(documents.held)
        """Sources whose documents in force are from an earlier life of the agent."""
        self._passed_over: set[Hashable] = set()
        """Sources whose last document says only where the metadata is now."""
        self._untaken: dict[str, str] = {}
        """The reason why a document is not in force, or not safe on disk, by the name of its source."""
        self._set_aside: dict[str, str] = {}
        """The reason why a document is not offered to the engine, by the name of its source."""
        self._warned = Warned()
        self._documents_changed = self._sources_changed = False
        """This and the next two are what `take` returns next; they are kept so that nothing is lost if it fails."""
        self._is_back = False
        self._troubles: list[str] = []
        self._notes: list[str] = []
        self.answered = False
        """True if any source has answered."""
        self.unconfirmed: set[str] = set()
        """Sources that have not answered yet, and whose documents are from an earlier life of the agent."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """The mistakes in the present documents."""
        return (*self._untaken.values(), *self._set_aside.values())

    def take(self, answers: Iterable[Answer]) -> Arrivals:
        """Take in the answers of sources. Raises StateError."""
        for answer in answers:
            self._sources_changed = (
                self._sources_changed or answer.turned or answer.changed
            )
            self._take_answer(answer)
        arrivals = Arrivals(
            documents_changed=self._documents_changed,
            sources_changed=self._sources_changed,
            troubles=tuple(self._troubles),
            notes=tuple(self._notes),
            is_back=self._is_back,
        )
        self._is_back = False
        self._documents_changed = self._sources_changed = False
        self._troubles, self._notes = [], []
        return arrivals

    def is_news(self, answer: Answer) -> bool:
        """Return whether anything follows from an answer; most answers are the same as before."""
        key = answer.key
        condition = self._collection.condition(key)
        return (
            answer.turned
            or answer.changed
            or not self.answered
            or key in self._passed_over
            or bool(self._untaken)
            or condition is None
            or bool(condition.trouble)
            or ("no answer", key) in self._warned
            or ("remark", key) in self._warned
        )

    def look_for_confirmation(self) -> bool:
        """Bring `unconfirmed` up to date; return whether it has changed."""
        unasked = {
            condition.name
            for condition in self._collection.conditions().values()
            if condition.working is None
        }
        unconfirmed = self._from_before & unasked
        changed = unconfirmed != self.unconfirmed
        if changed:
            self.unconfirmed = unconfirmed
        return changed

    def in_force(self) -> list[Document]:
        """Return the documents that count."""
        return in_force(self._documents.held, self._steering.used)

    def without_hopeless(
        self, documents: list[Document]
    ) -> tuple[list[Document], list[str]]:
        """Return the documents that did not abort the agent repeatedly, and warnings about the others."""
        warnings: list[str] = []
        while newest := self._newest(documents):
            why = self._attempts.hopeless(_READING, newest)
            if not why:
                break
            name = newest.partition(" ")[0]
            trouble = self._set_aside[name] = (
                f"the document of {name} is set aside until it changes: {why}"
            )
            warnings += self._warned.update(("hopeless", name), [trouble])
            documents = [document for document in documents if document.source != name]
        return documents, warnings

    def reading(self, documents: list[Document]) -> AbstractContextManager[None]:
        """Note for the watchdog, while the context lasts, that the newest of these documents is being read."""
        return self._attempts.on(_READING, self._newest(documents))

    @property
    def silent_transports(self) -> list[str]:
        """The names of the transports if none of them has answered, else nothing."""
        conditions = self._collection.conditions().items()
        transports = [
            condition
            for key, condition in conditions
            if isinstance(key, Transport) and not condition.seldom
        ]
        return (
            []
            if any(each.working for each in transports)
            else [each.name for each in transports]
        )

    def _newest(self, documents: list[Document]) -> str:
        """Return the source of the document that was put in force last, which is the changed one, and when."""
        put_at = self._documents.at
        newest = max(
            documents,
            key=lambda document: put_at.get(document.source, 0.0),
            default=None,
        )
        return f"{newest.source} {put_at.get(newest.source, 0.0)}" if newest else ""

    def _take_answer(self, answer: Answer) -> None:
        """Take in the answer of one source."""
        condition = self._collection.condition(answer.key)
        if condition and condition.seldom and answer.error:
            return
        silence = ("no answer", answer.key)
        if answer.error is not None:
            self._warn(silence, f"{answer.name}: {answer.error}")
            return
        self.answered = True
        if silence in self._warned:
            self._notes.append(f"{answer.name} answers again")
            self._is_back = True
        self._warn(silence, "")
        remark = condition.trouble if condition else ""
        self._warn(("remark", answer.key), f"{answer.name}: {remark}" if remark else "")
        document = answer.document
        again = answer.key in self._passed_over or (
            document and document.source in self._untaken
        )
        if document and (answer.changed or again):
            self._take_document(answer.key, document)

    def _take_document(self, key: Hashable, document: Document) -> None:
        """Put a document in force, and let its source discard it once it is safe on disk.

        If the document is not metadata, it is not put in force, and the source keeps it.
        """
        name = document.source
        if self._steering.only_redirects(key, document):
            self._passed_over.add(key)
            self._steering.learn(key, document)
            return
        self._passed_over.discard(key)
        held = self._documents.held.get(name)
        signatures = held.signatures if held else ()
        new = (
            held is None
            or signatures != document.signatures
            or not same(held.content, document.content)
        )
        kept = (
            held
            if held is not None and not new and name not in self._untaken
            else document
        )
        trouble = refusal(name, self._reader.parse(kept))
        if trouble:
            self._note_untaken(name, trouble)
            return
        trouble = self._documents.take(document) if new or name in self._untaken else ""
        self._from_before.discard(name)
        self._set_aside.pop(name, None)
        if not trouble:
            self._collection.taken(key, document)
        if new:
            # with the entries of the one before it, if it has none itself
            taken = self._documents.held[name]
            with self.reading([taken]):
                number = len(self._reader.parse(taken).deployments)
            self._notes.append(
                f"{name} has {number} deployment{'' if number == 1 else 's'}"
            )
            self._documents_changed = True
            self._collection.stir()
        if name in TRANSPORTS:
            self._steering.learn(key, document)
        self._note_untaken(name, trouble)

    def _note_untaken(self, name: str, trouble: str) -> None:
        """Remember why the document of a source is not in force, or not on disk; empty if nothing is wrong."""
        self._warn(("document", name), trouble)
        self._untaken.pop(name, None)
        if trouble:
            self._untaken[name] = trouble

    def _warn(self, subject: Hashable, trouble: str) -> None:
        self._troubles += self._warned.update(subject, [trouble] if trouble else [])
