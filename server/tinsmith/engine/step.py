"""One model call: build the view, stream, assemble, emit; retry what may be retried."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from io import StringIO
from math import ceil

from tinsmith.domain.errors import AgentError, Cancelled, ProtocolError
from tinsmith.domain.event import (
    AnswerReceived,
    AnswerWithdrawn,
    Notice,
    PromptBuilt,
    ReasoningStreamed,
    RequestCancelled,
    RequestStarted,
    RetryScheduled,
    TextStreamed,
    ToolCallDetected,
    ToolCallDropped,
    UsageUpdated,
)
from tinsmith.domain.ids import new_id, now_ms
from tinsmith.domain.message import (
    Answer,
    AssistantMessage,
    CallDetected,
    ModelDelta,
    ReasoningDelta,
    TextDelta,
)
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.request import TurnRequest
from tinsmith.engine.progress import Progress
from tinsmith.engine.window import View, make_view, measured

LONGEST_WAIT_MS = 120_000
"""Of what a provider asks for by `Retry-After`; limits count by the minute, beyond that a person decides."""


async def take_step(request: TurnRequest, progress: Progress) -> AssistantMessage:
    """Ask the model once and store its answer. Raises the error of the last attempt, or Cancelled."""
    progress.rounds += 1
    settings = request.settings
    empty_retries = settings.empty_response_retry_max_retries
    for attempt in range(empty_retries + 1):
        answer, stream, view = await _answer_with_retries(request, progress)
        if not answer.is_empty:
            return await _keep(request, progress, answer, stream.item_id, view)
        stream.withdraw()
        if attempt < empty_retries:
            delay = _backoff(settings.empty_response_retry_backoff_ms, attempt)
            await _wait(request, attempt + 1, "the model gave an empty answer", delay)
    raise ProtocolError(
        "emptyAnswer",
        f"The model gave an empty answer {empty_retries + 1} times. Send the message again, or try another model.",
    )


async def _answer_with_retries(request: TurnRequest, progress: Progress) -> tuple[Answer, "_Stream", View]:
    """One answer through the inner retry layer: connection, stall, 5xx, 429. A context overflow trims once."""
    policy = request.settings.llm_config
    failures = 0
    too_long: tuple[AgentError, View] | None = None
    while True:
        model_request, view = _build(request, progress, is_squeezed=too_long is not None)
        if too_long is not None and view.messages == too_long[1].messages:
            raise too_long[0]  # there is nothing to leave out: the same request would be refused again
        stream = _Stream(request, new_id("i"))
        request.journal.publish(RequestStarted(progress.rounds, failures + 1))
        try:
            answer = await stream.run(model_request)
        except Cancelled:
            request.journal.publish(RequestCancelled(progress.rounds))
            await _keep_part(request, progress, stream, "cancelled")
            raise
        except AgentError as error:
            if error.code == "contextWindow" and too_long is None and not stream.has_shown:
                too_long = error, view
                continue
            asked_for = error.data.get("retryAfterMs", 0)
            may_retry = error.retryable and failures < policy.retry_max_retries and asked_for <= LONGEST_WAIT_MS
            if not may_retry or (stream.has_shown and not policy.stream_retry_after_output):
                await _keep_part(request, progress, stream, "interrupted")
                if error.retryable and asked_for > LONGEST_WAIT_MS:
                    raise _too_long_a_wait(error, asked_for) from error
                raise
            stream.withdraw()
            delay = error.data.get("retryAfterMs", _backoff(policy.retry_backoff_ms, failures))
            failures += 1
            await _wait(request, failures, error.message, delay)
        else:
            return answer, stream, view


def _too_long_a_wait(error: AgentError, asked_for: int) -> AgentError:
    message = (
        f"{error.message} It asks to be left alone for {ceil(asked_for / 60_000)} minutes, which is longer than the "
        f"{LONGEST_WAIT_MS // 60_000} that are waited for unasked: send the message again then, or use another model."
    )
    return type(error)(error.code, message, retryable=True, origin=error.origin, data=error.data)


def _build(request: TurnRequest, progress: Progress, *, is_squeezed: bool) -> tuple[ModelRequest, View]:
    system, tools = request.system(), request.tools()
    view = make_view(
        progress.messages,
        settings=request.settings.context_management,
        context_window=request.model.context_window,
        edges=progress.edges,
        overhead_chars=_overhead(request),
        turn_id=request.turn_id,
        can_recall=any(spec.name == "recall" for spec in tools),
        is_squeezed=is_squeezed,
    )
    progress.edges = view.edges
    request.journal.publish(PromptBuilt(progress.rounds, len(view.messages), view.tokens, view.elided, view.dropped))
    return ModelRequest(request.model, system, view.messages, tools, cache_key=request.conversation_id), view


def _overhead(request: TurnRequest) -> int:
    """Characters of what goes along with the messages; a tool's schema is about as long as its description."""
    return len(request.system()) + sum(2 * len(spec.description) + 200 for spec in request.tools())


class _Stream:
    """One attempt: what was shown of it so far, under one item id."""

    def __init__(self, request: TurnRequest, item_id: str) -> None:
        self.item_id = item_id
        self.text = StringIO()  # not lists: a short delta as an object of its own takes ten times its bytes
        self.reasoning = StringIO()
        self.detected: list[CallDetected] = []
        self._request = request
        self._text_length = 0
        self._reasoning_length = 0

    @property
    def has_shown(self) -> bool:
        return bool(self._text_length or self._reasoning_length or self.detected)

    async def run(self, model_request: ModelRequest) -> Answer:
        """The whole answer, each delta published on the way."""
        answer: Answer | None = None
        with self._request.cancel.scope():
            deltas = self._request.llm.stream(model_request, self._request.settings.llm_config)
            async with aclosing(deltas):
                async for batch in deltas:
                    answer = self._show(batch) or answer
        if answer is not None:
            return answer
        raise ProtocolError("noAnswer", "The model's answer ended without a result. Send the message again.")

    def _show(self, batch: Sequence[ModelDelta]) -> Answer | None:
        publish = self._request.journal.publish
        for delta in batch:
            match delta:
                case TextDelta(text):
                    publish(TextStreamed(self.item_id, self._text_length, text))
                    self.text.write(text)
                    self._text_length += len(text)
                case ReasoningDelta(text):
                    publish(ReasoningStreamed(self.item_id, self._reasoning_length, text))
                    self.reasoning.write(text)
                    self._reasoning_length += len(text)
                case CallDetected(call_id, name):
                    publish(ToolCallDetected(call_id, name))
                    self.detected.append(delta)
                case Answer():
                    return delta
        return None

    def withdraw(self) -> None:
        """Take back what was shown, so that the next attempt doubles nothing."""
        self.drop_calls()
        if self._text_length or self._reasoning_length:
            self._request.journal.publish(AnswerWithdrawn(self.item_id))

    def drop_calls(self) -> None:
        """Close the cards of calls that will not come."""
        for call in self.detected:
            self._request.journal.publish(ToolCallDropped(call.call_id, call.name))


async def _keep(request: TurnRequest, progress: Progress, answer: Answer, item_id: str, view: View) -> AssistantMessage:
    """Store the whole answer, then say so; from here on it is part of the transcript."""
    message = AssistantMessage(
        message_id=progress.next_message_id(),
        turn_id=request.turn_id,
        item_id=item_id,
        text=answer.text,
        reasoning=answer.reasoning,
        calls=answer.calls,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        model=request.model.model,
        created_at=now_ms(),
        sealed=answer.sealed,
    )
    progress.usage += answer.usage
    progress.edges = measured(view.edges, view, _overhead(request), answer.usage.input)
    context_used = answer.usage.total or view.tokens
    await request.journal.record(
        AnswerReceived(message, context_used),
        UsageUpdated(
            last=answer.usage,
            turn=progress.usage,
            conversation=request.conversation_usage + progress.usage,
            context_used=context_used,
            context_size=request.model.context_window,
        ),
    )
    progress.messages.append(message)
    for remark in answer.remarks:
        if remark.code not in progress.remarked:  # once a turn is enough
            progress.remarked.add(remark.code)
            request.journal.publish(Notice("warning", remark.code, remark.message))
    return message


async def _keep_part(request: TurnRequest, progress: Progress, stream: _Stream, mark: str) -> None:
    """What was shown of an answer that broke off stays, marked; its calls do not."""
    stream.drop_calls()
    text, reasoning = stream.text.getvalue(), stream.reasoning.getvalue()
    if not text and not reasoning:
        return
    message = AssistantMessage(
        message_id=progress.next_message_id(),
        turn_id=request.turn_id,
        item_id=stream.item_id,
        text=text,
        reasoning=reasoning,
        model=request.model.model,
        created_at=now_ms(),
        marks=(mark,),
    )
    await request.journal.record(AnswerReceived(message))
    progress.messages.append(message)


def _backoff(backoff_ms: Sequence[float], attempt: int) -> float:
    return backoff_ms[min(attempt, len(backoff_ms) - 1)]


async def _wait(request: TurnRequest, attempt: int, reason: str, delay_ms: float) -> None:
    """Say why and how long, then wait; a cancel ends the wait."""
    request.journal.publish(RetryScheduled(attempt, reason, int(delay_ms)))
    with request.cancel.scope():
        await asyncio.sleep(delay_ms / 1000)
