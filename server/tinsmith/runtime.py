"""The composition root: builds everything from the settings, owns the tasks, opens and closes in order."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar

from tinsmith.config.directories import Directories, find_directories
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import AgentError, SchemaError
from tinsmith.domain.ids import new_id
from tinsmith.domain.ports import Documents, Model, Prompter
from tinsmith.llm.chat_completions import ChatCompletions
from tinsmith.net.http import HttpClient
from tinsmith.services import inspection
from tinsmith.services.approvals import Approvals
from tinsmith.services.conversations import Conversations, own_lease
from tinsmith.services.journal import Journal
from tinsmith.services.keys import api_key, secret_variables
from tinsmith.services.models import Models
from tinsmith.services.prompts import Scope
from tinsmith.services.settings import SettingsService
from tinsmith.services.turns import Turns
from tinsmith.store import Storage, Store
from tinsmith.tools import builtin_tools
from tinsmith.workspace.identity import look_at_project

_log = logging.getLogger(__name__)

BLOCKING_THREADS = 4
WARM_DELAY = 0.05
"""Seconds after the start in which the interpreter belongs to the client's first requests."""
STOP_TIMEOUT = 2.5
"""Seconds that running turns have to write their end before the store is closed."""

Result = TypeVar("Result")
INSPECTABLE = ("messages", "context")


class Runtime:
    """Everything one instance runs on. Adapters talk to its services in values."""

    def __init__(
        self,
        *,
        storage: Storage,
        tasks: asyncio.TaskGroup,
        threads: ThreadPoolExecutor,
        http: HttpClient,
        llm: Model,
        settings: SettingsService,
        journal: Journal,
        directories: Directories,
        documents: Documents,
        prompter: Prompter,
    ) -> None:
        self._tasks = tasks
        self._running: set[asyncio.Task[None]] = set()
        self._threads = threads
        self._http = http
        self._sandbox = cache(lambda: _open_sandbox(directories))
        self.directories = directories
        self.settings = settings
        self.journal = journal
        self.models = Models(http)
        self.conversations = Conversations(storage, journal, own_lease(journal.epoch))
        self.approvals = Approvals(storage, prompter)
        self.turns = Turns(
            conversations=self.conversations,
            journal=journal,
            settings=settings,
            models=self.models,
            approvals=self.approvals,
            llm=llm,
            tools=builtin_tools(
                documents,
                cache_dir=directories.cache,
                secret_variables=secret_variables(settings.effective.settings.llm_config.api_key_env),
                protected=(directories.data, directories.config),
                sandbox=self._sandbox,
            ),
            locate=self._locate,
            spawn=self.spawn,
            instance=journal.epoch,
        )

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task that this runtime owns; it is cancelled when the runtime closes."""
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def close(self) -> None:
        """Cancel every turn and wait for its stored end, give the leases back, stop what runs in the background."""
        await self.turns.stop_all(STOP_TIMEOUT)
        await self.conversations.release_all()
        for task in self._running:
            task.cancel()

    async def off_loop(self, work: Callable[[], Result]) -> Result:
        """Run a function that blocks in a thread of this runtime."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def warm(self) -> None:
        """Import what the first turn needs, off the loop, in the idle moment after the first conversation is there."""
        await asyncio.sleep(WARM_DELAY)
        await self.off_loop(self._http.warm)

    async def inspect(self, what: str, conversation_id: str) -> Any:
        """A named view of a conversation. Raises SchemaError for an unknown name or conversation."""
        match what:
            case "messages":
                conversation = self.conversations.get(conversation_id)
                return inspection.messages_view(conversation, self.conversations.transcript(conversation_id))
            case "context":
                return inspection.context_view(await self.turns.view(conversation_id))
            case _:
                known = ", ".join(INSPECTABLE)
                raise SchemaError("invalidParams", f"Cannot inspect {what!r}; known: {known}.", data={"path": "what"})

    async def sandbox_state(self) -> Any:
        """What commands run in: `kind` (bubblewrap, landlock, none), and the `reason` when it is not the best."""
        return await self.off_loop(lambda: self._sandbox().state())

    def context_window(self, conversation: Conversation) -> int:
        """The window of the model that the conversation would use now, in tokens; 0 when none is configured."""
        settings = self.settings.effective.settings
        role = conversation.role or settings.active_role
        try:
            return self.models.choose(settings, role, conversation.model).context_window
        except AgentError:
            return 0

    async def _locate(self, workspace: str, index_file: str) -> Scope:
        project = await self.off_loop(lambda: look_at_project(workspace, index_file))
        return Scope(project.cwd, project.root, project.index_text, project.instructions)


def _open_sandbox(directories: Directories) -> Any:
    from tinsmith.proc.sandbox import Sandbox

    return Sandbox(os.path.join(directories.cache, "sandbox"), os.environ)


@asynccontextmanager
async def open_runtime(
    *,
    documents: Documents,
    prompter: Prompter,
    epoch: str = "",
    editor_settings: Any = None,
    overrides: dict[str, Any] | None = None,
    storage: Storage | None = None,
    llm: Model | None = None,
) -> AsyncGenerator[Runtime]:
    """Open the store, build the services, and close everything in order at the end of the block.

    `editor_settings` is a settings tree, `overrides` maps paths to values (a command line's); both belong to the
    ephemeral layer. `storage` and `llm` may be injected ready-made. Raises PersistenceError, SchemaError.
    """
    directories = find_directories(os.environ)
    threads = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="blocking")
    store = storage or await asyncio.get_running_loop().run_in_executor(threads, lambda: Store.open(directories.store))
    http = HttpClient()
    failure: AgentError | None = None
    try:
        journal = Journal(store, epoch or new_id("s"))
        settings = await asyncio.get_running_loop().run_in_executor(
            threads,
            lambda: SettingsService(store, journal, directories.user_file, editor_settings, overrides or {}),
        )
        await settings.remember()
        async with asyncio.TaskGroup() as tasks:
            runtime = Runtime(
                storage=store,
                tasks=tasks,
                threads=threads,
                http=http,
                llm=llm or ChatCompletions(http, api_key, lambda: new_id("k")),
                settings=settings,
                journal=journal,
                directories=directories,
                documents=documents,
                prompter=prompter,
            )
            try:
                yield runtime
            except AgentError as error:  # a group of one would hide what it says
                failure = error
            finally:
                await runtime.close()
        if failure is not None:
            raise failure
    finally:
        await http.aclose()
        await store.close()
        threads.shutdown(wait=False)
