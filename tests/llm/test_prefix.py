"""Ten rounds of a conversation in every dialect: each request begins with the bytes of the one before."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from tests.llm.asking import MAP, ORIGIN, READ, assistant, call, encoded, result, sealed, user

from tinsmith.domain.message import Message
from tinsmith.domain.settings import DialectName, ModelChoice
from tinsmith.llm.dialect import Terms
from tinsmith.llm.dialects import DIALECTS
from tinsmith.llm.profiles import Profile, profile_for

MESSAGES = {
    "chat_completions": (b'"messages":[', b'],"tools":'),
    "responses": (b'"input":[', b'],"tools":'),
    "anthropic": (b'"messages":[', b'],"thinking":'),
    "ollama": (b'"messages":[', b'],"tools":'),
}
BREAKPOINT = b',"cache_control":{"type":"ephemeral"}'
SEALED = {
    "anthropic": '{"type":"thinking","thinking":"Hm.","signature":"Eq"}',
    "responses": '{"type":"reasoning","summary":[],"encrypted_content":"gAAAA"}',
}


def rounds(dialect: DialectName) -> list[tuple[Message, ...]]:
    """The history before each of ten requests: nine answers with calls, a steering message among them."""
    history: list[Message] = [user("go")]
    requests: list[tuple[Message, ...]] = [tuple(history)]
    for number in range(9):
        parts = (sealed(SEALED[dialect]),) if dialect in SEALED else ()
        ids = (f"c{number}a", f"c{number}b")
        history.append(assistant(f"Round {number}.", *map(call, ids), sealed=parts, reasoning="Hm."))
        history.extend(result(call_id, f"result {number}\n", ok=number != 3) for call_id in ids)
        if number == 4:
            history.append(user("also this"))
        requests.append(tuple(history))
    return requests


def split(dialect: DialectName, body: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the messages, the messages, and what stands after them."""
    opening, closing = MESSAGES[dialect]
    before, _, rest = body.partition(opening)
    messages, _, after = rest.rpartition(closing)
    assert messages
    return before, messages, after


def bodies(dialect: DialectName, profile: Profile) -> list[bytes]:
    choice = ModelChoice("m", "override", "k")
    terms = Terms(profile, ORIGIN, "high")
    fields = {"system": "Be good.", "tools": (READ, MAP), "cache_key": "c_1"}
    return [encoded(dialect, *messages, terms=terms, model=choice, **fields) for messages in rounds(dialect)]


def check(dialect: DialectName, requests: Sequence[bytes]) -> None:
    for earlier, later in pairwise(requests):
        first, second = split(dialect, earlier), split(dialect, later)
        assert (first[0], first[2]) == (second[0], second[2])
        assert second[1].startswith(first[1].rstrip(b"]}"))
        assert len(second[1]) > len(first[1])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9999/v1", "http://127.0.0.1:8080/v1", "https://api.mistral.ai/v1"]
)
def test_ten_rounds(dialect: DialectName, address: str) -> None:
    requests = bodies(dialect, profile_for(address))
    assert len(requests) == 10
    check(dialect, [request.replace(BREAKPOINT, b"") for request in requests])
    assert requests == bodies(dialect, profile_for(address))


def test_breakpoints_move_and_nothing_else() -> None:
    """At most four, which is what is allowed; the one that a request wrote is read by the next but one."""
    requests = bodies("anthropic", Profile())
    places = [[match.start() for match in re.finditer(re.escape(BREAKPOINT), request)] for request in requests]
    assert [len(found) for found in places] == [3] + [4] * 9
    for earlier, later in pairwise(requests):
        marked = earlier[: earlier.rfind(BREAKPOINT) + len(BREAKPOINT)]
        before_last = later[: later.rfind(BREAKPOINT)]
        assert marked.replace(BREAKPOINT, b"") == before_last[: before_last.rfind(BREAKPOINT)].replace(BREAKPOINT, b"")


def test_what_an_answer_sealed_is_in_every_later_request() -> None:
    for dialect, body in SEALED.items():
        name = next(known for known in DIALECTS if known == dialect)
        assert [request.count(body.encode()) for request in bodies(name, Profile())] == list(range(10))
