"""What is known is read again when an event, an error or the resync puts it in doubt."""

from __future__ import annotations

import pytest
from moriio_operator.api.kinds import CHILDREN
from moriio_operator.control.child_cache import Knowledge, Sighting
from moriio_operator.control.queue import Key
from moriio_operator.kube.kinds import SERVICE

from unit.samples import UID, Json, children_of, laid_over, owner

KEY = Key("team", "llm")


def service(version: str = "7", uid: str = "u-1", name: str = "llm") -> Json:
    made: Json = laid_over(
        children_of(owner())[0],
        {"metadata": {"name": name, "uid": uid, "resourceVersion": version, "managedFields": []}},
    )
    return made


def sighting(version: str | None = "7", uid: str = "u-1", name: str = "llm") -> Sighting:
    return Sighting("Service", name, uid, version)


def informed(*objects: Json) -> Knowledge:
    """Know all kinds; of Services, these."""
    knowledge = Knowledge()
    for kind in knowledge.doubtful(KEY, CHILDREN, UID)[0]:
        knowledge.learn(KEY, kind, objects if kind is SERVICE else ())
    return knowledge


def doubts(knowledge: Knowledge, uid: str = UID) -> list[str]:
    return [kind.kind for kind in knowledge.doubtful(KEY, CHILDREN, uid)[0]]


def known(knowledge: Knowledge) -> list[Json]:
    return knowledge.doubtful(KEY, CHILDREN, UID)[1]


def test_at_first_everything_is_read_and_then_nothing() -> None:
    assert doubts(Knowledge()) == [kind.kind for kind in CHILDREN]
    assert doubts(informed(service())) == []


def test_what_was_read_is_known_without_who_wrote_which_field() -> None:
    (told,) = known(informed(service()))
    assert told["metadata"]["name"] == "llm"
    assert "managedFields" not in told["metadata"]


@pytest.mark.parametrize(
    "news",
    [
        sighting("8"),
        sighting("7", uid="u-2"),
        sighting("7", name="other"),
        sighting(None),
    ],
    ids=["changed", "made anew", "another", "deleted"],
)
def test_news_puts_its_kind_in_doubt_and_no_other(news: Sighting) -> None:
    knowledge = informed(service())
    assert knowledge.hear(KEY, news)
    assert doubts(knowledge) == ["Service"]


def test_what_is_known_already_is_no_news() -> None:
    knowledge = informed(service())
    assert not knowledge.hear(KEY, sighting())
    assert not knowledge.hear(KEY, sighting(None, name="never-heard-of"))
    assert doubts(knowledge) == []


def test_of_what_was_never_read_everything_is_news() -> None:
    assert Knowledge().hear(KEY, sighting())


def test_the_answer_to_our_write_settles_the_doubt_that_its_echo_raised_before() -> None:
    knowledge = informed(service())
    assert knowledge.hear(KEY, sighting("8"))
    knowledge.written(KEY, service("8"))
    assert doubts(knowledge) == []
    assert [obj["metadata"]["resourceVersion"] for obj in known(knowledge)] == ["8"]


def test_an_event_during_the_reading_puts_the_reading_in_doubt() -> None:
    knowledge = informed(service())
    knowledge.hear(KEY, sighting("8"))
    assert doubts(knowledge) == ["Service"]
    knowledge.hear(KEY, sighting("9"))
    knowledge.learn(KEY, SERVICE, [service("8")])
    assert doubts(knowledge) == ["Service"]


def test_a_deletion_that_is_told_before_the_answer_to_the_create_is_not_lost() -> None:
    # The answer is under way when somebody deletes what it tells of.
    knowledge = informed()
    assert knowledge.hear(KEY, sighting("5"))
    assert knowledge.hear(KEY, sighting(None))
    knowledge.written(KEY, service("5"))
    assert doubts(knowledge) == ["Service"]


def test_what_is_known_is_given_with_the_doubts_and_stays_whatever_is_forgotten_then() -> None:
    knowledge = informed(service())
    unknown, sure = knowledge.doubtful(KEY, CHILDREN, UID)
    knowledge.forget_all()
    assert unknown == []
    assert [obj["metadata"]["name"] for obj in sure] == ["llm"]


def test_our_own_deletion_is_no_news() -> None:
    knowledge = informed(service())
    knowledge.deleted(KEY, service())
    assert known(knowledge) == []
    assert not knowledge.hear(KEY, sighting(None))


def test_children_of_an_earlier_deployment_of_this_name_are_not_taken_for_ours() -> None:
    knowledge = informed(service())
    assert doubts(knowledge, "uid-of-the-second") == [kind.kind for kind in CHILDREN]
    assert known(knowledge) == []


def test_what_is_forgotten_is_read_anew() -> None:
    knowledge = informed(service())
    knowledge.forget_all()
    assert known(knowledge) == []
    assert len(doubts(knowledge)) == len(CHILDREN)


def test_a_write_before_the_first_reading_is_not_mistaken_for_one() -> None:
    knowledge = Knowledge()
    knowledge.written(KEY, service())
    assert "Service" in doubts(knowledge)
