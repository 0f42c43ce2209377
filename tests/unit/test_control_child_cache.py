"""What is known is read again when an event, an error or the resync puts it in doubt."""

from __future__ import annotations

import pytest
from moriio_operator.api.kinds import CHILDREN
from moriio_operator.control.child_cache import ChildCache, ObservedVersion
from moriio_operator.control.queue import Key
from moriio_operator.kube.kinds import SERVICE

from unit.samples import UID, Json, children_of, laid_over, owner

KEY = Key("team", "llm")


def service(version: str = "7", uid: str = "u-1", name: str = "llm") -> Json:
    made: Json = laid_over(
        next(child for child in children_of(owner()) if child["kind"] == "Service"),
        {"metadata": {"name": name, "uid": uid, "resourceVersion": version, "managedFields": []}},
    )
    return made


def sighting(version: str | None = "7", uid: str = "u-1", name: str = "llm") -> ObservedVersion:
    return ObservedVersion("Service", name, uid, version)


def informed(*objects: Json) -> ChildCache:
    """Know all kinds; of Services, these."""
    cache = ChildCache()
    for kind in cache.stale(KEY, CHILDREN, UID)[0]:
        cache.store(KEY, kind, objects if kind is SERVICE else ())
    return cache


def doubts(cache: ChildCache, uid: str = UID) -> list[str]:
    return [kind.kind for kind in cache.stale(KEY, CHILDREN, uid)[0]]


def known(cache: ChildCache) -> list[Json]:
    return cache.stale(KEY, CHILDREN, UID)[1]


def test_at_first_everything_is_read_and_then_nothing() -> None:
    assert doubts(ChildCache()) == [kind.kind for kind in CHILDREN]
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
def test_news_puts_its_kind_in_doubt_and_no_other(news: ObservedVersion) -> None:
    cache = informed(service())
    assert cache.invalidate(KEY, news)
    assert doubts(cache) == ["Service"]


def test_what_is_known_already_is_no_news() -> None:
    cache = informed(service())
    assert not cache.invalidate(KEY, sighting())
    assert not cache.invalidate(KEY, sighting(None, name="never-heard-of"))
    assert doubts(cache) == []


def test_of_what_was_never_read_everything_is_news() -> None:
    assert ChildCache().invalidate(KEY, sighting())


def test_the_answer_to_our_write_settles_the_doubt_that_its_echo_raised_before() -> None:
    cache = informed(service())
    assert cache.invalidate(KEY, sighting("8"))
    cache.written(KEY, service("8"))
    assert doubts(cache) == []
    assert [obj["metadata"]["resourceVersion"] for obj in known(cache)] == ["8"]


def test_an_event_during_the_reading_puts_the_reading_in_doubt() -> None:
    cache = informed(service())
    cache.invalidate(KEY, sighting("8"))
    assert doubts(cache) == ["Service"]
    cache.invalidate(KEY, sighting("9"))
    cache.store(KEY, SERVICE, [service("8")])
    assert doubts(cache) == ["Service"]


def test_a_deletion_that_is_told_before_the_answer_to_the_create_is_not_lost() -> None:
    # The answer is under way when somebody deletes what it tells of.
    cache = informed()
    assert cache.invalidate(KEY, sighting("5"))
    assert cache.invalidate(KEY, sighting(None))
    cache.written(KEY, service("5"))
    assert doubts(cache) == ["Service"]


def test_what_is_known_is_given_with_the_doubts_and_stays_whatever_is_forgotten_then() -> None:
    cache = informed(service())
    unknown, sure = cache.stale(KEY, CHILDREN, UID)
    cache.forget_all()
    assert unknown == []
    assert [obj["metadata"]["name"] for obj in sure] == ["llm"]


def test_our_own_deletion_is_no_news() -> None:
    cache = informed(service())
    cache.deleted(KEY, service())
    assert known(cache) == []
    assert not cache.invalidate(KEY, sighting(None))


def test_children_of_an_earlier_deployment_of_this_name_are_not_taken_for_ours() -> None:
    cache = informed(service())
    assert doubts(cache, "uid-of-the-second") == [kind.kind for kind in CHILDREN]
    assert known(cache) == []


def test_what_is_forgotten_is_read_anew() -> None:
    cache = informed(service())
    cache.forget_all()
    assert known(cache) == []
    assert len(doubts(cache)) == len(CHILDREN)


def test_a_write_before_the_first_reading_is_not_mistaken_for_one() -> None:
    cache = ChildCache()
    cache.written(KEY, service())
    assert "Service" in doubts(cache)
