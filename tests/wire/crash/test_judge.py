"""The judge itself: it finds what it is there to find, and nothing in what is right."""

import json

import lmdb
import pytest
from tests.wire.crash.bodies import RefusedError, history_of
from tests.wire.crash.judge import Evidence, Told, verdict

DONE = "exit: 0\n(no output)"
ASKED = [("user", "go k1 t1 1")]
ROUND = [
    *ASKED,
    ("said", "Round 0."),
    ("call", "bash", {"command": "echo m1 >> log.txt"}, DONE),
    ("call", "write", {"path": "made/m1.txt", "content": "m1\n"}, "hash: 0\n"),
]


@pytest.fixture
def evidence(tmp_path):
    """Of one turn that went well."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "m1.txt").write_text("m1\n")
    (tmp_path / "log.txt").write_text("m1\n")
    evidence = Evidence(tmp_path, tmp_path / "store", sent={"k1": [ASKED, ROUND]}, issued={"m1": "k1"})
    evidence.told["t1"] = Told("k1", "go k1 t1 1", True, ["Round 0."], [DONE], ["completed"])
    store(evidence, {"turn_id": "t1", "outcome": "completed"})
    return evidence


def store(evidence, *records):
    with lmdb.open(str(evidence.store), max_dbs=64) as environment, environment.begin(write=True) as transaction:
        turns = environment.open_db(b"turn", transaction)
        transaction.drop(turns, delete=False)
        for number, record in enumerate(records):
            transaction.put(b"%d" % number, json.dumps(record).encode(), db=turns)


def test_what_is_right_is_found_right(evidence):
    assert verdict(evidence) == []


def changed(position, result):
    return [*ROUND[:position], (*ROUND[position][:3], result), *ROUND[position + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda e: e.faults.append("an empty user"), "an empty user"),
        (lambda e: e.sent["k1"].append(ROUND[:2]), "k1: request 2 does not go on from request 1"),
        (lambda e: (e.workspace / "log.txt").write_text("m1\nm1\n"), "bash m1 was done 2 times"),
        (lambda e: (e.workspace / "log.txt").write_text(""), "bash m1 was done 0 times"),
        (lambda e: (e.workspace / "made" / "m1.txt").unlink(), "write m1 was done 0 times"),
        (lambda e: (e.workspace / "made" / "m2.txt").touch(), "write m2 was done and stands in no history"),
        (lambda e: (e.workspace / "log.txt").write_text("m1\nm2\n"), "bash m2 was done and stands in no history"),
        (lambda e: e.sent.update(k1=[changed(2, "Not run: …")]), "bash m1 was done 1 times"),
        (lambda e: e.sent.update(k1=[changed(2, "Whatever")]), "bash m1 was done 1 times, and its result says"),
        (lambda e: e.sent.update(k1=[[*ROUND, ROUND[2]]]), "bash m1 stands twice in a history"),
        (lambda e: e.sent.update(k1=[[*ROUND, *ASKED]]), "t1: its message is there 2 times"),
        (lambda e: e.told["t1"].answers.append("More."), "t1: the answer 'More.' was told and is lost"),
        (lambda e: e.told["t1"].results.append("exit: 1"), "t1: the result 'exit: 1' was told and is lost"),
        (lambda e: e.told["t1"].ends.append("completed"), "t1: told as ['completed', 'completed']"),
        (lambda e: e.told["t1"].ends.append("error"), "t1: told as ['completed', 'error']"),
        (store, "t1: 0 records"),
        (lambda e: store(e, *[{"turn_id": "t1", "outcome": "completed"}] * 2), "t1: 2 records"),
        (lambda e: store(e, {"turn_id": "t1"}), "t1: it has no end"),
    ],
)
def test_each_fault_is_found(evidence, spoil, found):
    spoil(evidence)
    assert any(fault.startswith(found) for fault in verdict(evidence)), verdict(evidence)


USER = {"role": "user", "content": "go"}
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
ASKING = {"role": "assistant", "tool_calls": [CALL]}
TEXTUAL = {"role": "assistant", "tool_calls": [{"function": {"name": "bash", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "fine"}


def chat(*messages):
    return "/v1/chat/completions", {"messages": messages}


def anthropic(*messages):
    return "/v1/messages", {"messages": [{"role": role, "content": content} for role, content in messages]}


TEXT = {"type": "text", "text": "go"}
USE = {"type": "tool_use", "id": "c1", "name": "bash", "input": {}}
USED = {"type": "tool_result", "tool_use_id": "c1", "content": "fine"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        chat(),
        chat({"role": "user", "content": " "}),
        chat(USER, {"role": "assistant", "content": None}),
        chat(USER, {"role": "assistant", "content": "said"}),
        chat(USER, ASKING),
        chat(USER, ASKING, USER, RESULT),
        chat(USER, ASKING, RESULT, RESULT),
        chat(USER, ASKING, RESULT, ASKING, RESULT),
        chat(USER, {"role": "assistant", "tool_calls": [{**CALL, "id": "c 1"}]}, {**RESULT, "tool_call_id": "c 1"}),
        anthropic(("user", [TEXT]), ("user", [TEXT])),
        anthropic(("user", [TEXT]), ("assistant", [USE]), ("user", [TEXT])),
        anthropic(("user", [TEXT]), ("assistant", [USE]), ("user", [TEXT, USED])),
        ("/v1/responses", {"input": [{"type": "function_call_output", "call_id": "c1", "output": "fine"}]}),
        ("/api/chat", {"messages": [USER, TEXTUAL, {"role": "tool", "tool_name": "bash", "content": "fine"}]}),
    ],
)
def test_what_a_strict_server_refuses(path, body):
    with pytest.raises(RefusedError):
        history_of(path, json.dumps(body).encode())


def test_one_history_in_two_dialects():
    said = {"role": "assistant", "content": "said", "tool_calls": [CALL]}
    one = history_of(chat()[0], json.dumps(chat(USER, said, RESULT)[1]).encode())
    path, body = anthropic(("user", [TEXT]), ("assistant", [{"type": "text", "text": "said"}, USE]), ("user", [USED]))
    assert one == history_of(path, json.dumps(body).encode())
    assert one == [("user", "go"), ("said", "said"), ("call", "bash", {}, "fine")]
