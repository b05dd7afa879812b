from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AccessError, SourceError
from heat_config_agent.settings import effective
from heat_config_agent.sources import active, learned
from heat_config_agent.sources.active import Steering
from heat_config_agent.sources.base import Source
from heat_config_agent.sources.documents import Documents
from heat_config_agent.sources.poller import Collection, Condition
from heat_config_agent.sources.schedule import Schedule
from heat_config_agent.sources.transports import Transport

Wanted = Mapping[object, tuple[str, Callable[[Callable[[], None]], Source]]]


class Asked(Collection):
    """A collection that asks nobody: a test says how it is with each source."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule, 60)
        self.found: dict[object, Condition] = {}

    def use(self, wanted: Wanted, *, now: bool, seldom: object = None) -> None:  # noqa: ARG002
        self.found = {
            key: self.found.get(key, Condition(name))
            for key, (name, _) in wanted.items()
        }
        for key, each in self.found.items():
            each.seldom = key == seldom

    def conditions(self) -> dict[object, Condition]:
        return self.found

    @property
    def names(self) -> list[tuple[str, str]]:
        """Return the sources that are polled, with the origins of their settings."""
        return [
            (each.name, active.describe(key))
            for key, each in self.found.items()
            if not each.seldom
        ]

    @property
    def seldom(self) -> list[str]:
        """Return the sources that are polled only now and then."""
        return [each.name for each in self.found.values() if each.seldom]

    def answered(
        self, name: str, origin: str = "", error: Exception | None = None
    ) -> None:
        """A source has answered, or not."""
        for key, each in self.found.items():
            if each.name == name and origin in active.describe(key):
                each.working = error is None
                each.ever = each.working or (
                    each.ever and not isinstance(error, AccessError)
                )


class Place:
    """A state directory, and what steers its agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "agent.conf"
        self.start("")

    def start(self, text: str) -> None:
        """Start with these settings of `[agent]` and other sections, as after a restart."""
        self.path.write_text(f"[agent]\nstate_dir = {self.folder}\n{text}")
        given = effective.make({}, config=self.path)
        self.documents = Documents(given.state)
        self.asked = Asked(active.schedule(given))
        self.steering = Steering(given, self.documents, self.asked)
        self.steering.steer()

    def metadata(self, source: str = "request", /, **said: object) -> None:
        """Record that a document of a source has arrived with these settings of the agent."""
        document = Document(
            source=source, content={"deployments": [], "os-collect-config": said}
        )
        self.documents.take(document)
        if source in ("request", "heat", "cfn", "zaqar"):
            key = next(
                (
                    each
                    for each in self.asked.found
                    if isinstance(each, Transport) and each.name == source
                ),
                source,
            )
            self.steering.learn(key, document)
        self.steering.steer()

    def answered(
        self, name: str, origin: str = "", error: Exception | None = None
    ) -> None:
        """A source has answered, or not."""
        self.asked.answered(name, origin, error)
        self.steering.steer()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine on which only the transports are asked."""
    return Place(tmp_path)


OWN = "collectors = request\n[request]\nmetadata_url = http://old\n"
NEW = {"request": {"metadata_url": "http://new"}}
AWAY, REFUSED = SourceError("away"), AccessError("no")


def urls(place: Place) -> list[str]:
    """Return the addresses that are asked."""
    return [
        str(key.values["metadata_url"])
        for key in place.asked.found
        if isinstance(key, Transport)
    ]


def test_settings_of_metadata_are_tried_next_to_working_ones(place: Place) -> None:
    """The metadata's settings are used next to working ones until they work themselves, also after a restart."""
    place.start(OWN)
    assert urls(place) == ["http://old"]
    place.answered("request")
    place.metadata(**NEW)
    assert urls(place) == ["http://new"], "until it is known to fail it is the one"
    place.answered("request", "metadata", AWAY)
    assert urls(place) == ["http://new", "http://old"]
    assert not (place.folder / learned.FILE).exists()
    place.answered("request", "metadata")
    assert urls(place) == ["http://new"]
    assert (place.folder / learned.FILE).exists()
    place.start(OWN)
    assert urls(place) == ["http://new"]


def test_refused_settings_of_metadata_are_dropped(place: Place) -> None:
    """Refused settings from the metadata are dropped for the machine's own, but not while a server is only away."""
    place.start(OWN)
    place.metadata(**NEW)
    place.answered("request")
    place.answered("request", error=AWAY)
    assert urls(place) == ["http://new"]
    place.answered("request", error=REFUSED)
    assert urls(place) == ["http://new", "http://old"]


def test_settings_that_somebody_changes_go_before_what_was_learned(
    place: Place,
) -> None:
    """Changed settings take precedence over learned ones, which are used if they fail."""
    place.start(OWN)
    place.metadata(**NEW)
    place.answered("request")
    place.start(OWN.replace("old", "wanted"))
    assert urls(place) == ["http://wanted"]
    place.answered("request", error=AWAY)
    assert urls(place) == ["http://wanted", "http://new"]


def test_metadata_that_says_little_takes_nothing_away(place: Place) -> None:
    """Nothing, null, half, or nonsense: the one who asked goes on."""
    place.start(OWN)
    place.answered("request")
    nothing: tuple[dict[str, object], ...] = (
        {},
        {"request": None},
        {"request": {}},
        {"request": {"metadata_url": None}},
        {"request": 5},
    )
    for said in nothing:
        place.metadata(**said)
        assert urls(place) == ["http://old"]
    place.metadata(
        heat={"auth_url": "http://h", "password": ["geheim"]}, polling_interval="often"
    )
    assert urls(place) == ["http://old"]
    said_so = " ".join(place.steering.news)
    assert "os-collect-config.polling_interval" in said_so
    assert "geheim" not in said_so
    count = len(place.steering.news)
    place.metadata(
        heat={"auth_url": "http://h", "password": ["geheim"]}, polling_interval="often"
    )
    assert len(place.steering.news) == count, "each is said once"


def test_intervals_come_from_the_metadata_where_our_own_file_does_not_say(
    place: Place,
) -> None:
    """At once."""
    place.start(OWN)
    place.metadata(polling_interval=7, splay=3)
    assert (place.asked.schedule.most, place.asked.schedule.splay) == (7, 3)
    place.start(OWN.replace("collectors", "polling_interval = 11\ncollectors"))
    place.metadata(polling_interval=7)
    assert place.asked.schedule.most == 11


def test_the_least_interval_is_never_longer_than_the_longest(place: Place) -> None:
    """The minimum interval never exceeds the maximum, whichever settings define them."""
    place.start("min_polling_interval = 50\npolling_interval = 5\n" + OWN)
    assert (place.asked.schedule.least, place.asked.schedule.most) == (5, 5)


def test_sources_of_the_instance_are_polled_until_heat_answers(place: Place) -> None:
    """Sources that the instance was created with are polled until Heat answers, and not after that."""
    place.start("collectors = heat_local, request\n")
    assert place.asked.names == [("heat_local", "")]
    place.answered("heat_local")
    place.metadata("heat_local", **NEW)
    assert sorted(each for each, _ in place.asked.names) == ["heat_local", "request"]
    place.answered("request")
    assert [each for each, _ in place.asked.names] == ["request"]
    place.metadata(request=None)
    place.answered("request", error=REFUSED)
    assert sorted(each for each, _ in place.asked.names) == ["heat_local", "request"]


def test_only_what_the_administrator_has_chosen_is_asked(place: Place) -> None:
    """Only the sources that the administrator has chosen are polled, whatever the metadata says."""
    place.start("collectors = local\n")
    assert place.asked.names == [("local", "")]
    place.metadata(**NEW, collectors=["request", "ec2"])
    assert place.asked.names == [("local", "")]


def test_the_document_of_what_is_used_no_more_goes(place: Place) -> None:
    """The documents of people's files go as soon as the files are not named any more."""
    place.start("collectors = local, file\n[file]\npath = /x\n")
    for name in ("local", "file"):
        place.metadata(name)
    assert set(place.documents.held) == {"local", "file"}
    place.start("collectors = local\n")
    assert set(place.documents.held) == {"local"}
    assert place.steering.used == {"local"}


HEAT = {
    "auth_url": "http://keystone/v3",
    "user_id": "u",
    "password": "secret",
    "project_id": "p",
    "stack_id": "s/1",
    "resource_name": "server",
}
HEAT_OWN = "collectors = heat, request\n[heat]\n" + "".join(
    f"{name} = {value}\n" for name, value in HEAT.items()
)


def test_who_said_where_copies_are_is_asked_now_and_then_for_the_next_place(
    place: Place,
) -> None:
    """Heat tells nobody at a temporary URL, or in a queue, that it puts the metadata elsewhere from now on."""
    place.start(HEAT_OWN)
    place.answered("heat")
    place.metadata("heat", **NEW)
    place.answered("request")
    assert (place.asked.names, place.asked.seldom) == (
        [("request", "the metadata from heat")],
        ["heat"],
    )
    document = Document(
        source="heat",
        content={"deployments": [{"id": "old"}], "os-collect-config": NEW},
    )
    [teacher] = [key for key, each in place.asked.found.items() if each.seldom]
    assert place.steering.only_redirects(teacher, document), (
        "what it has of deployments does not count"
    )
    place.start(HEAT_OWN)  # it is known after a restart, too
    place.answered("request")
    assert place.asked.seldom == ["heat"]
    place.metadata("heat", collectors=["heat"], heat=HEAT)
    assert (place.asked.names, place.asked.seldom) == (
        [("heat", "the metadata from heat")],
        [],
    )
    place.answered("heat")
    place.start(HEAT_OWN)
    place.answered("heat")
    assert (place.asked.names, place.asked.seldom) == (
        [("heat", "the metadata from heat")],
        [],
    )


def test_an_older_place_that_names_the_known_one_only_redirects(place: Place) -> None:
    """While that is merely away, what the older has of deployments may be old; once it refuses us, the older counts."""
    place.start(OWN)
    place.answered("request")
    place.metadata(**NEW)
    place.answered("request", "metadata")
    place.start(OWN)
    place.answered("request", "metadata", AWAY)
    old = next(
        key
        for key in place.asked.found
        if isinstance(key, Transport) and key.values["metadata_url"] == "http://old"
    )
    document = Document(
        source="request", content={"deployments": [], "os-collect-config": NEW}
    )
    assert place.steering.only_redirects(old, document)
    assert not place.steering.only_redirects(
        old, Document(source="request", content={"deployments": []})
    )
    for each in place.asked.found.values():
        each.denied = each.working is False
    assert not place.steering.only_redirects(old, document)


def test_last_message_of_a_queue_survives_a_restart(place: Place) -> None:
    """A queue says it only once, and what it said has perhaps never worked yet."""
    place.start(OWN)
    place.answered("request")
    place.metadata(**NEW)
    place.start(OWN)
    assert urls(place) == ["http://new"]
    place.answered("request", "metadata", AWAY)
    assert urls(place) == ["http://new", "http://old"]
