"""The wire below the server: frames and messages as pure functions, the transport on real pipes."""

import asyncio
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.adapters.lsp import transport as wire_transport
from tinsmith.adapters.lsp.frames import FrameError, FrameReader, frame
from tinsmith.adapters.lsp.messages import convert_what_fits, decode, read_message
from tinsmith.adapters.lsp.transport import RequestError, Transport
from tinsmith.adapters.lsp.wire import InitializeParams
from tinsmith.domain.errors import ProtocolError

bodies = st.lists(st.binary(max_size=60), max_size=6)


@given(bodies, st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_frames_come_out_however_they_are_cut(sent, cuts):
    wire = b"".join(map(frame, sent))
    reader, received, number = FrameReader(100), [], 0
    while wire:
        size = cuts[number % len(cuts)]
        received += reader.feed(wire[:size])
        wire, number = wire[size:], number + 1
    assert received == sent


@given(bodies)
def test_what_is_whole_before_a_break_comes_out(sent):
    reader = FrameReader(100)
    received = []
    with pytest.raises(FrameError, match="101"):
        received.extend(reader.feed(b"".join(map(frame, sent)) + b"Content-Length: 101\r\n\r\n"))
    assert received == sent


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_json_with_halves_of_surrogate_pairs_is_read(value):
    def whole(text):
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)

    read = decode(json.dumps({"value": value}).encode(), dict)
    mended = (
        json.dumps({"value": value}, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    assert json.dumps(read, ensure_ascii=False) == whole(mended) or read == json.loads(whole(mended))


@given(st.binary(max_size=40) | st.text(st.sampled_from('{}[]",:0e-+.\\unltrfabcdeid'), max_size=30).map(str.encode))
def test_any_bytes_are_a_message_or_refused_in_words(body):
    try:
        refusal = read_message(body) and None
    except ProtocolError as error:
        refusal = error
    assert refusal is None or refusal.code in {"parse", "invalidRequest", "batchUnsupported"}
    assert refusal is None or refusal.message.endswith(".")


@given(
    st.dictionaries(st.sampled_from(["processId", "rootUri", "capabilities", "workspaceFolders", "other"]), json_values)
)
def test_what_fits_of_an_object_is_kept(params):
    kept, dropped = convert_what_fits(params, InitializeParams)
    assert {path.partition(".")[0] for path in dropped} <= params.keys()
    if "processId" not in dropped and "processId" in params:
        assert kept.process_id == (None if params["processId"] is None else int(params["processId"]))


class Wire:
    """A transport between two pipes; `sent` reads what it wrote."""

    def __init__(self) -> None:
        self.their_in, our_out = os.pipe()
        our_in, self.their_out = os.pipe()
        self.received: list[bytes] = []
        self.reasons: list[str] = []
        self.transport = Transport(
            our_in, our_out, receive=self.receive, closed=self.reasons.append, loop=asyncio.get_running_loop()
        )
        self.transport.start(b"")
        os.set_blocking(self.their_in, False)
        self.reader = FrameReader(1 << 28)

    def receive(self, body: bytes) -> None:
        self.received.append(body)
        if body.startswith(b"raise"):
            raise ValueError(body)
        if body.startswith(b"{"):
            self.transport.settle(read_message(body))

    async def sent(self, count: int) -> list[dict]:
        """The next messages on the wire."""
        found: list[dict] = []
        async with asyncio.timeout(10):
            while len(found) < count:
                found += map(json.loads, self.reader.feed(self.read()))
                await asyncio.sleep(0.002)
        return found

    def read(self) -> bytes:
        """What is on the wire now."""
        try:
            return os.read(self.their_in, 1 << 20)
        except BlockingIOError:
            return b""

    async def poll(self, condition) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.002)

    def say(self, message) -> None:
        os.write(self.their_out, frame(message if isinstance(message, bytes) else json.dumps(message).encode()))


@pytest.fixture
async def wire():
    made = Wire()
    yield made
    os.close(made.their_out)
    await made.poll(lambda: made.reasons)
    os.close(made.their_in)


async def test_a_request_that_times_out_is_taken_back_and_its_late_answer_dropped(wire, caplog):
    with pytest.raises(TimeoutError):
        await wire.transport.request("window/slow", {}, dict, timeout=0.02)
    asked, taken_back = await wire.sent(2)
    assert (asked["method"], taken_back) == (
        "window/slow",
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": asked["id"]}},
    )
    wire.say({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
    wire.say({"jsonrpc": "2.0", "id": asked["id"] + 1_000, "result": {}})
    await wire.poll(lambda: len(wire.received) == 2)
    assert [record.message.rpartition(" ")[2] for record in caplog.records] == [str(asked["id"] + 1_000)]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"result": {"a": 1}, "error": None}, {"a": 1}),
        ({"result": None}, None),
        ({}, None),
        ({"error": {"code": -32601, "message": "no"}}, RequestError),
        ({"error": "broken"}, RequestError),
        ({"result": {"a": 1}, "error": {"code": 1, "message": "both"}}, RequestError),
    ],
)
async def test_an_answer_in_every_form_reaches_who_asked(wire, answer, result):
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(catch(wire.transport.request("x", {}, dict | None)))
        (asked,) = await wire.sent(1)
        wire.say({"jsonrpc": "2.0", "id": asked["id"], **answer})
    found = asking.result()
    assert type(found) is result if isinstance(result, type) else found == result


async def catch(asking):
    try:
        return await asking
    except RequestError as error:
        return error


async def test_one_bad_message_does_not_take_the_next_ones_along(wire):
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    os.write(wire.their_out, b"".join(map(frame, (b"one", b"raise", b"two"))))
    await wire.poll(lambda: len(wire.received) == 3)
    assert wire.received == [b"one", b"raise", b"two"]


async def test_order_holds_whether_a_frame_is_written_at_once_or_waits(wire):
    sizes = [10, 3_000, 200_000, 5, 90_000, 1, 4_090, 4_096, 5_000] * 4
    for number, size in enumerate(sizes):
        wire.transport.send({"number": number, "filling": "x" * size})
    messages = await wire.sent(len(sizes))
    assert [(message["number"], len(message["filling"])) for message in messages] == list(enumerate(sizes))
    await wire.poll(lambda: wire.transport.queued == 0)


async def test_a_reader_that_sleeps_too_long_is_given_up(wire, monkeypatch):
    monkeypatch.setattr(wire_transport, "MAX_QUEUED", 1_000_000)
    sent = 0
    while not wire.reasons and sent < 100:
        wire.transport.send({"filling": "x" * 50_000})
        sent += 1
        await asyncio.sleep(0)
    assert wire.reasons == ["the client does not read"]
    assert 19 < sent < 30
    assert wire.transport.queued == 0
    while wire.read():  # so that the writer is not stuck for ever
        await asyncio.sleep(0)
