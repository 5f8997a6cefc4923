"""The turn: ask the model, run what it calls, again until it stops. Every effect goes through a port of the request."""

import msgspec

from tinsmith.domain.errors import AgentError, BudgetExhausted, Cancelled
from tinsmith.domain.event import SteeringTaken
from tinsmith.domain.message import UserMessage
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.turn import TurnEnd
from tinsmith.engine.execute import execute_calls
from tinsmith.engine.limits import check_budget
from tinsmith.engine.progress import Progress
from tinsmith.engine.step import take_step


async def run_turn(request: TurnRequest) -> TurnEnd:
    """Run the turn to its end and say how it ended. Raises nothing but bugs."""
    progress = Progress(request)
    try:
        while True:
            await _take_steering(request, progress)
            request.cancel.check()
            check_budget(request.settings, progress)
            answer = await take_step(request, progress)
            if answer.calls:
                await execute_calls(request, progress, answer.calls)
            elif not await _take_steering(request, progress):
                return progress.end("completed")
            if progress.is_terminal:
                return progress.end("completed")
    except Cancelled:
        return progress.end("cancelled")
    except BudgetExhausted as limit:
        return msgspec.structs.replace(progress.end("budget_exhausted"), error=limit.record())
    except AgentError as error:
        return msgspec.structs.replace(progress.end("error"), error=error.record())


async def _take_steering(request: TurnRequest, progress: Progress) -> bool:
    """Let the waiting steering messages join the transcript. Whether there were any."""
    waiting: list[UserMessage] = [
        msgspec.structs.replace(message, message_id=progress.next_message_id()) for message in request.inbox.take()
    ]
    if waiting:
        await request.journal.record(*(SteeringTaken(message) for message in waiting))
        progress.messages.extend(waiting)
    return bool(waiting)
