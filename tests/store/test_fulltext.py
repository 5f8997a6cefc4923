"""What was said is found: at once, after packing, not after it is gone, and as reading every text would find it."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.domain.conversation import Conversation, Rewind
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_id, now_ms
from tinsmith.domain.message import AssistantMessage, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.store import InMemoryStore, Session, Store
from tinsmith.store.codec import encode_key
from tinsmith.store.documents import SEARCHED
from tinsmith.store.query import parse_query
from tinsmith.store.segments import NAME, SEGMENT
from tinsmith.store.transaction import Span
from tinsmith.store.words import count_words

C = "c_1"


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    store = Store.open(str(tmp_path / "store")) if request.param == "disk" else InMemoryStore()
    await store.write(lambda s: [s.conversations.put(Conversation(c, f"/{c}", 0, 0)) for c in ("c_1", "c_2")])
    yield store
    await store.close()


@pytest.fixture(params=["waiting", "packed"])
async def settle(request, storage):
    """Leave the messages waiting, or pack them."""

    async def settle() -> None:
        while request.param == "packed" and await storage.write(lambda s: s.search.fold(1)):
            pass

    return settle


def user(text: str, created_at: int = 0) -> UserMessage:
    return UserMessage("", "t", (TextPart(text),), created_at)


async def say(storage, *texts: str, conversation_id: str = C) -> None:
    await storage.write(lambda s: [s.messages.append(conversation_id, user(text)) for text in texts])


def found(storage, query: str, **options) -> list[str]:
    hits = storage.read(lambda s: s.search.find(query, **options)).hits
    return [f"{hit.conversation.conversation_id}:{hit.message_id}" for hit in hits]


def rows(storage, kind: bytes = b"") -> list[bytes]:
    return storage.read(lambda s: [key for key, _ in s._transaction.scan(NAME, Span()) if key.startswith(kind)])


async def test_every_word_must_be_there_in_whatever_form(storage, settle):
    await say(storage, "The parseHeader function", "a header of Größe 3", "日本語の文書", "nothing to see")
    await settle()
    assert found(storage, "HEADER ") == ["c_1:m00000001", "c_1:m00000000"]  # the shorter text first
    assert found(storage, "header func") == ["c_1:m00000000"]
    assert found(storage, "pars*  function ") == ["c_1:m00000000"]
    assert found(storage, "parseh") == ["c_1:m00000000"]
    assert found(storage, "pars ") == []
    assert found(storage, "grösse ") == ["c_1:m00000001"]
    assert found(storage, "本語") == ["c_1:m00000002"]
    assert found(storage, "書") == ["c_1:m00000002"]
    assert found(storage, "本文") == []
    assert found(storage, "header nothing") == []


async def test_a_phrase_is_words_in_their_order(storage, settle):
    await say(storage, "one two three", "two one", "One\n(two)", "oneself two", "語の文書が")
    await settle()
    assert sorted(found(storage, '"one two"')) == ["c_1:m00000000", "c_1:m00000002"]
    assert found(storage, '"one two" three') == ["c_1:m00000000"]
    assert found(storage, '"の文書"') == ["c_1:m00000004"]
    assert found(storage, '"文書 が"') == []


async def test_a_hit_tells_where_and_what(storage, settle):
    now = now_ms()
    await storage.write(lambda s: s.messages.append("c_2", user("keep the store open", now)))
    await settle()
    (hit,) = storage.read(lambda s: s.search.find("store")).hits
    conversation = Conversation("c_2", "/c_2", 0, 0)
    assert (hit.conversation, hit.message_id, hit.kind, hit.created_at) == (conversation, message_id(0), "user", now)
    assert [(part.text, part.is_hit) for part in hit.snippet] == [
        ("keep the ", False),
        ("store", True),
        (" open", False),
    ]
    assert hit.score > 0


async def test_rare_words_short_texts_and_new_messages_come_first(storage, settle):
    month = 30 * 86_400_000
    texts = [
        ("common rare", 0),
        ("common common common common " + "x " * 200, 0),
        ("common", now_ms() - month),
        ("common", now_ms()),
        ("common", 0),
    ]
    await storage.write(lambda s: [s.messages.append(C, user(text, at)) for text, at in texts])
    await settle()
    assert found(storage, "common ") == [f"{C}:{message_id(n)}" for n in (3, 2, 4, 0, 1)]
    assert found(storage, "common ", limit=2) == [f"{C}:{message_id(n)}" for n in (3, 2)]
    assert found(storage, "com", among=lambda conversation: conversation.workspace == "/c_2") == []
    await say(storage, "common", conversation_id="c_2")
    await settle()
    assert found(storage, "com", among=lambda conversation: conversation.workspace == "/c_2") == ["c_2:m00000000"]


async def test_what_is_searched_of_a_message(storage, settle):
    call = ToolCall("k", "bash", '{"command":"grep\\nneedle","more":[{"deep":"inside"}],"number":7}')
    cut = ToolCall("k2", "read", '{"path":"half', is_complete=False)
    parts = (TextPart("typed"), TextPart("aboutthemoment", label="environment"), ImagePart("hash", "image/png"))
    messages = [
        UserMessage("", "t", parts),
        AssistantMessage("", "t", "i", "answered", reasoning="pondered", calls=(call, cut)),
        ToolMessage("", "t", "k", "bash", "resulted " + "x " * (SEARCHED // 2 - 5) + " within beyond"),
    ]
    await storage.write(lambda s: [s.messages.append(C, message) for message in messages])
    await settle()
    seen = ["typed", "answered", "needle", "inside", "bash", "half", "resulted"]
    assert [found(storage, word) for word in seen] == [[f"{C}:{message_id(n)}"] for n in (0, 1, 1, 1, 1, 1, 2)]
    unseen = ["aboutthemoment", "pondered", "command", "nneedle", "deep", "beyond"]
    assert [found(storage, word) for word in unseen] == [[]] * len(unseen)


async def test_what_is_replaced_rewound_or_deleted_is_not_found(storage, settle):
    await say(storage, "first word", "second word", "third word")
    await settle()
    await storage.write(lambda s: s.messages.put(C, msgspec.structs.replace(user("other"), message_id=message_id(0))))
    rewound = Conversation(C, "/c_1", 0, 0, rewinds=(Rewind(1, 1),))
    await storage.write(lambda s: s.conversations.put(rewound))
    assert await storage.write(lambda s: s.messages.delete(C, message_id(2)))
    assert not await storage.write(lambda s: s.messages.delete(C, message_id(2)))
    assert found(storage, "word") == []
    assert found(storage, "other") == ["c_1:m00000000"]
    await settle()
    assert found(storage, "word") == []
    assert found(storage, "other") == ["c_1:m00000000"]
    await storage.write(lambda s: s.conversations.put(Conversation(C, "/c_1", 0, 0)))
    assert found(storage, "word") == ["c_1:m00000001"]


async def test_the_words_of_a_deleted_message_leave_the_store(storage):
    await say(storage, "secretive", "other")
    await storage.write(lambda s: s.search.fold(1))
    assert any(key.endswith(b"secretive") for key in rows(storage))
    await storage.write(lambda s: s.messages.delete(C, message_id(0)))
    while await storage.write(lambda s: s.search.fold()):
        pass
    assert not any(key.endswith(b"secretive") for key in rows(storage))
    await storage.write(lambda s: s.messages.delete(C, message_id(1)))
    while await storage.write(lambda s: s.search.fold(1)):
        pass
    assert rows(storage) == []


async def test_a_failed_write_is_not_found(storage):
    def fail(session: Session) -> None:
        session.messages.append(C, user("never"))
        raise LookupError

    with pytest.raises(LookupError):
        await storage.write(fail)
    assert (found(storage, "never"), rows(storage)) == ([], [])


async def test_a_message_that_cannot_be_read_or_belongs_nowhere_is_not_found(storage, settle):
    await say(storage, "torn word", "whole word")
    await say(storage, "lost word", conversation_id="c_gone")
    await settle()
    await storage.write(lambda s: s._transaction.put("message", encode_key(C, message_id(0)), b'{"torn'))
    assert found(storage, "word") == ["c_1:m00000001"]
    await storage.write(lambda s: s.search.rebuild())
    await settle()
    assert found(storage, "word") == ["c_1:m00000001"]


async def test_a_query_without_words_is_refused(storage):
    with pytest.raises(SchemaError):
        found(storage, "?!")


async def test_packing_begins_by_itself(tmp_path):
    """When many wait, and when the store is closed."""
    for store in (InMemoryStore(), Store.open(str(tmp_path))):
        await store.write(lambda s: s.conversations.put(Conversation(C, "/", 0, 0)))
        for _ in range(4):
            await say(store, *(f"word{number}" for number in range(SEGMENT)))
        await store.write(lambda s: None)
        assert len(rows(store, b"p")) < 4 * SEGMENT
        assert len(rows(store, b"s")) >= 1
        assert len(found(store, "word7 ")) == 4
        await store.close()
    again = Store.open(str(tmp_path))
    assert (len(rows(again, b"p")), len(rows(again, b"s"))) == (0, 4)
    assert len(found(again, "word7 ")) == 4
    await again.close()


async def test_more_than_can_be_read_through_is_told(storage):
    await storage.write(lambda s: [s.messages.append(C, user("word")) for _ in range(5 * SEGMENT)])
    await storage.write(lambda s: s.search.rebuild())
    hits = storage.read(lambda s: s.search.find("word"))
    assert (len(hits.hits), hits.unindexed) == (20, SEGMENT)


_words = st.sampled_from(["foo", "Bar", "fooBar", "foo_bar", "BARBAR", "naïve", "日本語", "本", "x1"])
_texts = st.lists(_words, max_size=4).map(" ".join)
_changes = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), _texts, st.just(value=False)),
    st.tuples(st.just("delete"), st.integers(0, 5), st.just(""), st.just(value=False)),
    st.tuples(st.just("fold"), st.just(0), st.just(""), st.booleans()),
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_changes, max_size=25), st.lists(_words, min_size=1, max_size=2), st.sampled_from(["", " "]))
async def test_the_index_agrees_with_the_texts_after_any_history(changes, words, end):
    store = InMemoryStore()
    await store.write(lambda s: s.conversations.put(Conversation(C, "/", 0, 0)))
    texts: dict[str, str] = {}
    for kind, number, text, is_eager in changes:
        identifier = message_id(number)
        if kind == "put":
            message = UserMessage(identifier, "t", (TextPart(text),))
            await store.write(lambda s, m=message: s.messages.put(C, m))
            texts[identifier] = text
        elif kind == "delete":
            await store.write(lambda s, i=identifier: s.messages.delete(C, i))
            texts.pop(identifier, None)
        else:
            await store.write(lambda s, least=1 if is_eager else 3: s.search.fold(least))
    query = " ".join(words) + end
    terms = parse_query(query).terms
    expected = [
        f"{C}:{identifier}"
        for identifier, text in sorted(texts.items())
        if all(any(term.fits(word) for word in count_words(text)) for term in terms)
    ]
    assert sorted(found(store, query)) == expected
