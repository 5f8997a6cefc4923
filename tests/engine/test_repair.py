"""Repair: whatever was left open, the history that is sent is valid; and repairing it again changes nothing."""

from hypothesis import given
from hypothesis import strategies as st
from tests.engine.test_window import is_valid

from tinsmith.domain.message import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.engine.repair import EFFECT_UNKNOWN, NOT_RUN, missing_results, valid_history

USER = UserMessage("m00000000", "t", (TextPart("go"),))


def answer(ordinal, *call_ids):
    calls = tuple(ToolCall(call_id, "bash", "{}") for call_id in call_ids)
    return AssistantMessage(f"m{ordinal:08d}", "t", f"i{ordinal}", "", calls=calls)


def result(ordinal, call_id, content="done"):
    return ToolMessage(f"m{ordinal:08d}", "t", call_id, "bash", content)


def test_an_unbegun_call_was_not_run_and_a_begun_one_is_unknown():
    missing = missing_results([USER, answer(1, "a", "b", "c"), result(2, "a")], {"b"})
    assert [(each.call_id, each.content, each.mutation_state) for each in missing] == [
        ("b", EFFECT_UNKNOWN, "unknown"),
        ("c", NOT_RUN, "none"),
    ]


def test_results_stand_directly_behind_their_answer_in_the_order_of_the_calls():
    late = [USER, answer(1, "a", "b"), result(2, "b"), USER, result(3, "a")]
    assert [type(message).__name__ for message in valid_history(late)] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "ToolMessage",
        "UserMessage",
    ]
    assert [message.call_id for message in valid_history(late)[2:4]] == ["a", "b"]


def test_orphans_doubles_and_early_results():
    """ST-20: a result without a call, a call answered twice, a result before its call."""
    orphan = [USER, result(1, "nobody"), answer(2)]
    assert valid_history(orphan) == (USER, answer(2))
    doubled = [USER, answer(1, "a"), result(2, "a", "first"), result(3, "a", "second")]
    assert [message.content for message in valid_history(doubled)[2:]] == ["first"]
    early = [USER, result(1, "a"), answer(2, "a")]
    assert valid_history(early) == (USER, answer(2, "a"), result(1, "a"))


MESSAGES = st.lists(
    st.one_of(
        st.just(USER),
        st.lists(st.sampled_from("abcdef"), max_size=3, unique=True).map(lambda ids: answer(1, *ids)),
        st.sampled_from("abcdef").map(lambda call_id: result(2, call_id)),
    ),
    max_size=12,
)


@given(MESSAGES, st.sets(st.sampled_from("abcdef")))
def test_any_history_becomes_valid_and_stays_as_it_is(messages, begun):
    once = valid_history(messages, begun)
    answers = [message for message in once if isinstance(message, AssistantMessage)]
    ids = [call.call_id for each in answers for call in each.calls]
    if len(ids) == len(set(ids)):
        assert is_valid(once)
    assert valid_history(once) == once
