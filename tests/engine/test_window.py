"""The window: what is left out, in steps, and what never is."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.message import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.domain.settings import ContextSettings
from tinsmith.domain.turn import WindowEdges
from tinsmith.engine.window import make_view

SETTINGS = ContextSettings(tool_output_keep_rounds=3, tool_output_elide_over_chars=100)


def rounds(count, *, calls=1, size=200, turn="t", start=0):
    """A user message and `count` rounds with `calls` calls each, every result `size` characters."""
    messages = [UserMessage(f"m{start:08d}", turn, (TextPart("go"),))]
    for number in range(count):
        ordinal = start + len(messages)
        made = tuple(ToolCall(f"k{ordinal}_{index}", "read", "{}") for index in range(calls))
        messages.append(AssistantMessage(f"m{ordinal:08d}", turn, f"i{ordinal}", f"round {number}", calls=made))
        messages += [
            ToolMessage(f"m{ordinal + 1 + index:08d}", turn, call.call_id, "read", "x" * size)
            for index, call in enumerate(made)
        ]
    return tuple(messages)


START = WindowEdges()


def view(messages, *, window=1_000_000, edges=START, settings=SETTINGS, squeezed=False, turn="t"):
    return make_view(
        messages,
        settings=settings,
        context_window=window,
        edges=edges,
        overhead_chars=0,
        turn_id=turn,
        can_recall=False,
        is_squeezed=squeezed,
    )


def is_valid(messages):
    """Each call has its one result directly behind its answer."""
    pending = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not pending or pending.pop(0) != message.call_id:
                return False
        elif pending:
            return False
        elif isinstance(message, AssistantMessage):
            pending = [call.call_id for call in message.calls]
    return not pending


def test_elision_moves_only_when_as_many_rounds_as_are_kept_became_old():
    elided = [view(rounds(count)).elided for count in range(11)]
    assert elided == [0, 0, 0, 0, 0, 0, 3, 3, 3, 6, 6]


def test_an_elided_result_says_how_much_it_was():
    shown = view(rounds(6, size=200)).messages[2]
    assert shown.content == "[elided 200 chars of tool output]"
    with_key = [
        msgspec.structs.replace(message, recall_key="dispatch/1") if isinstance(message, ToolMessage) else message
        for message in rounds(6)
    ]
    shown = make_view(
        with_key,
        settings=SETTINGS,
        context_window=1_000_000,
        edges=WindowEdges(),
        overhead_chars=0,
        turn_id="t",
        can_recall=True,
    ).messages[2]
    assert shown.content == '[elided 200 chars of tool output; retrieve with recall(key="dispatch/1")]'


def test_small_results_are_never_elided():
    assert view(rounds(9, size=100)).elided == 0


def test_the_view_is_byte_stable_over_twenty_rounds_but_for_counted_steps():
    edges, steps, before = WindowEdges(), 0, ()
    for count in range(1, 21):
        now = view(rounds(count), edges=edges)
        prefix = now.messages[: len(before)]
        if prefix != before:
            steps += 1
            assert now.edges != edges
        edges, before = now.edges, now.messages
    assert steps == 5  # twenty rounds, three kept: at 6, 9, 12, 15 and 18


def test_dropping_goes_down_to_sixty_percent_once():
    messages = rounds(40, size=90)
    window = 1000
    shown = view(messages, window=window)
    assert shown.dropped > 0
    assert shown.tokens <= window * 0.6
    again = view(messages, window=window, edges=shown.edges)
    assert again.messages == shown.messages


def test_dropped_history_is_marked_and_the_opening_message_stays():
    shown = view(rounds(40, size=90), window=1000)
    assert shown.messages[0].parts[0].label == "window"
    assert shown.messages[0].text == "go"


def test_a_turn_of_which_nothing_is_left_goes_with_its_message():
    old = rounds(20, size=90, turn="old")
    messages = (*old, *rounds(3, size=90, start=len(old)))
    shown = view(messages, window=120)
    assert [message.turn_id for message in shown.messages if isinstance(message, UserMessage)] == ["t"]


def test_one_result_that_is_larger_than_the_window_is_shortened():
    messages = rounds(1, size=400_000)
    shown = view(messages, window=10_000)
    assert shown.tokens <= 10_000
    assert "characters left out" in shown.messages[-1].content
    assert shown.messages[0].text == "go"


def test_squeezing_drops_although_the_estimate_allows_it():
    messages = rounds(10, size=90)
    loose = view(messages)
    assert view(messages, squeezed=True).tokens <= loose.tokens * 0.6


def test_switched_off_nothing_is_left_out():
    off = msgspec.structs.replace(SETTINGS, enabled=False)
    shown = view(rounds(30), window=100, settings=off)
    assert (shown.elided, shown.dropped, len(shown.messages)) == (0, 0, 61)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(0, 3000)), min_size=1, max_size=5),
    st.integers(10, 5000),
)
def test_every_budget_leaves_a_valid_history_with_the_newest_user_message(turns, window):
    messages = ()
    for number, (count, calls, size) in enumerate(turns):
        messages += rounds(count, calls=calls, size=size, turn=f"t{number}", start=len(messages))
    shown = view(messages, window=window, turn=f"t{len(turns) - 1}").messages
    assert is_valid(shown)
    assert isinstance(shown[0], UserMessage)
    newest = [message for message in messages if isinstance(message, UserMessage)][-1]
    assert newest.message_id in {message.message_id for message in shown}
    order = [message.message_id for message in shown]
    assert order == sorted(order)
