"""The demo model, asked for one answer after the other."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tinsmith.demo.model import HELP, INTRODUCTION, TEST_COMMAND, answer
from tinsmith.domain.message import AssistantMessage, Message, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import ModelChoice
from tinsmith.llm.scripted import Call, Reply, Say

FIX = "Why does the kettle never whistle? Please fix it."
TEST = "Run the tests, please."
MENDED = "    return temperature >= BOILING\n"
EDITED = "hash: bbbbbbbbbbbbbbbb\nlines: 14 (+0)\nchanged: 14-14\n"
UNSAVED = EDITED + "note: changed in the editor, not saved yet; commands see the old text on disk\n"
PASSED = "exit: 0\n" + "-" * 70 + "\nRan 4 tests in 0.000s\n\nOK\n"
FAILED = "exit: 1\nAssertionError: the kettle is silent\n\nRan 4 tests in 0.000s\n\nFAILED (failures=1)\n"
SILENT = "1 of 4 tests failed: the kettle is silent."
ASK_FOR_SAVE = "A command sees the disk, and you have unsaved changes: save them (`:w`) and ask me again."


def file(digest: str = "aaaaaaaaaaaaaaaa", line: str = "    return temperature > BOILING", number: int = 13) -> str:
    return f"path: kettle.py\nlines: 13\nhash: {digest}\nsource: buffer\nshowing: 1-13\n{number:>5}\t{line}\n"


def edit(digest: str, number: int) -> Call:
    arguments = {"op": "replace", "start": number, "text": MENDED}
    return Call("edit", {"path": "kettle.py", "hash": digest, "edits": [arguments]})


READS = (Call("read", {"path": "kettle.py"}), Call("read", {"path": "test_kettle.py"}))
RUN = Call("bash", {"command": TEST_COMMAND, "timeout_s": 60})


class Talk:
    """A conversation with the model: what a person says and what the tools give."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.reply = Reply()

    def say(self, text: str, *labelled: TextPart) -> "Talk":
        self.messages.append(UserMessage(self._id(), "t", (TextPart(text), *labelled)))
        return self._ask()

    def give(self, *results: str) -> "Talk":
        """The results of the calls of the last answer, in their order."""
        assert len(results) == len(self.calls)
        for call_id, result in zip(self._call_ids(), results, strict=True):
            self.messages.append(ToolMessage(self._id(), "t", call_id, "", result))
        return self._ask()

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(step for step in self.reply.steps if isinstance(step, Call))

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.reply.steps if isinstance(step, Say))

    def _ask(self) -> "Talk":
        self.reply = answer(ModelRequest(ModelChoice("demo", "default", "default_model"), "", tuple(self.messages)))
        made = [ToolCall(f"{self._id()}-{place}", call.name, dumped(call)) for place, call in enumerate(self.calls)]
        self.messages.append(AssistantMessage(self._id(), "t", "i", self.text, calls=tuple(made)))
        return self

    def _call_ids(self) -> Sequence[str]:
        last = self.messages[-1]
        assert isinstance(last, AssistantMessage)
        return [call.call_id for call in last.calls]

    def _id(self) -> str:
        return f"m{len(self.messages)}"


def dumped(call: Call) -> str:
    arguments: Any = call.arguments
    return json.dumps(arguments)


def test_it_looks_edits_what_it_was_shown_and_explains() -> None:
    talk = Talk().say(FIX)
    assert (talk.text.startswith(INTRODUCTION), talk.calls) == (True, READS)
    talk.give(file(number=17), "path: test_kettle.py\n")
    assert talk.calls == (edit("aaaaaaaaaaaaaaaa", 17),)
    talk.give(UNSAVED)
    assert talk.calls == ()
    assert "Line 17 of `kettle.py` now says" in talk.text
    assert ":w" in talk.text


def test_its_very_first_sentence_says_what_it_is() -> None:
    for wish in (FIX, TEST, "Write me a poem."):
        assert Talk().say(wish).text.startswith("I am a scripted demo model, not an AI")
    assert INTRODUCTION not in Talk().say("Hello").say("Hello again").text


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (PASSED, "All 4 tests pass. The kettle whistles."),
        (FAILED, f"{SILENT} Ask me to fix the kettle."),
        (
            FAILED.replace("exit: 1\n", "exit: 1\nnote: open with unsaved changes, so …: kettle.py\n"),
            f"{SILENT} {ASK_FOR_SAVE}",
        ),
        (
            "The user declined this call. Do not repeat it.",
            "The tests did not run. The user declined this call. Do not repeat it.",
        ),
        ("timed out after 60 s\n(no output)", "The tests did not run. timed out after 60 s"),
    ],
    ids=["pass", "fail", "unsaved", "declined", "timed out"],
)
def test_it_reports_the_tests_as_they_went(result: str, said: str) -> None:
    talk = Talk().say(TEST)
    assert talk.calls == (RUN,)
    talk.give(result)
    assert (talk.text, talk.calls) == (said, ())


def test_the_tests_follow_a_repair_when_both_are_wanted() -> None:
    talk = Talk().say("Fix the kettle, then run the tests.").give(file(), "").give(EDITED)
    assert talk.calls == (RUN,)


def test_the_tests_wait_for_the_save_when_they_could_not_see_the_repair() -> None:
    talk = Talk().say("Fix the kettle, then run the tests.").give(file(), "").give(UNSAVED)
    assert talk.calls == ()


def test_a_stale_edit_is_sent_again_under_its_new_number_and_hash() -> None:
    stale = (
        "kettle.py is not the text with the hash aaaaaaaaaaaaaaaa any more, so nothing was changed.\n"
        "hash: cccccccccccccccc\nWhat changed since:\n…\nYour edits in the new text:\n"
        "  replace 13-13 -> replace 15-15\nSend the call again with the new hash and these line numbers."
    )
    talk = Talk().say(FIX).give(file(), "").give(stale)
    assert talk.calls == (edit("cccccccccccccccc", 15),)


def test_a_stale_edit_that_no_longer_fits_makes_it_look_again_but_not_for_ever() -> None:
    stale = "kettle.py is not …\nhash: cccccccccccccccc\n  replace 13-13 -> does not fit, its lines changed\n"
    talk = Talk().say(FIX).give(file(), "")
    for number in (20, 21):
        talk.give(stale)
        assert talk.calls == (Call("read", {"path": "kettle.py"}),)
        talk.give(file("dddddddddddddddd", number=number))
        assert talk.calls == (edit("dddddddddddddddd", number),)
    talk.give(stale)
    assert talk.calls == ()
    assert talk.text.startswith("`kettle.py` was left as it is.")


def test_a_declined_edit_is_not_repeated() -> None:
    talk = Talk().say(FIX).give(file(), "").give("The user declined this call and said: not now")
    assert talk.calls == ()
    assert "The user declined this call and said: not now" in talk.text


def test_what_is_mended_stays_as_it_is() -> None:
    talk = Talk().say(FIX).give(file(line=MENDED.rstrip()), "")
    assert (talk.calls, "in order already" in talk.text) == ((), True)
    talk = Talk().say(FIX).give(file(line="    return True"), "")
    assert (talk.calls, "leave it alone" in talk.text) == ((), True)


def test_a_file_that_is_gone_is_named() -> None:
    talk = Talk().say(FIX).give("There is no file kettle.py.", "There is no file test_kettle.py.")
    assert (talk.calls, talk.text) == ((), "I could not read `kettle.py`: There is no file kettle.py.")


def test_anything_else_is_answered_with_what_it_can_do() -> None:
    talk = Talk().say("Write me a poem.")
    assert (talk.calls, talk.text) == ((), INTRODUCTION + HELP)


@pytest.mark.parametrize(
    "moment",
    [
        (TextPart("[in focus: /tmp/kettle.py]", label="moment"),),
        (),
    ],
    ids=["as a part", "in the text"],
)
def test_what_the_editor_adds_is_no_wish(moment: tuple[TextPart, ...]) -> None:
    text = "Hello" if moment else "Hello\n\n[moment]\n[in focus: /tmp/kettle.py; open in the editor: tests]"
    assert Talk().say(text, *moment).calls == ()
