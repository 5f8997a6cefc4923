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
from tinsmith.domain.header import variables_of
from tinsmith.domain.ids import new_id
from tinsmith.domain.message import Answer
from tinsmith.domain.ports import Diagnostics, Documents, Model, Prompter, Symbols
from tinsmith.domain.settings import ModelChoice
from tinsmith.llm.provider import Provider
from tinsmith.net.fetch import WebFetcher
from tinsmith.net.http import HttpClient
from tinsmith.services import inspection
from tinsmith.services.approvals import Approvals
from tinsmith.services.changes import Changes
from tinsmith.services.conversations import Conversations
from tinsmith.services.first_run import ask_once
from tinsmith.services.holding import own_lease
from tinsmith.services.images import Images
from tinsmith.services.journal import Journal
from tinsmith.services.keys import Keys, api_key, secret_variables, without_secrets
from tinsmith.services.models import Models
from tinsmith.services.prompts import Scope
from tinsmith.services.queue import Queue
from tinsmith.services.retention import Retention
from tinsmith.services.settings import OffLoop, SettingsService, tool_options
from tinsmith.services.transcripts import Transcripts
from tinsmith.services.turns import Turns
from tinsmith.services.usage import usage_view
from tinsmith.services.windows import Windows
from tinsmith.store import Storage, Store
from tinsmith.tools import builtin_tools
from tinsmith.tools.linkup import Linkup
from tinsmith.workspace.identity import look_at_project

_log = logging.getLogger(__name__)

BLOCKING_THREADS = 4
WARM_DELAY = 0.05
"""Seconds after the start in which the interpreter belongs to the client's first requests."""
STOP_TIMEOUT = 2.5
"""Seconds that running turns have to write their end before the store is closed."""

Result = TypeVar("Result")
INSPECTABLE = ("messages", "context", "usage", "server")


class Runtime:
    """Everything one instance runs on. Adapters talk to its services in values."""

    def __init__(
        self,
        *,
        storage: Storage,
        tasks: asyncio.TaskGroup,
        off_loop: OffLoop,
        http: HttpClient,
        keys: Keys,
        images: Images,
        llm: Model,
        settings: SettingsService,
        journal: Journal,
        directories: Directories,
        documents: Documents,
        prompter: Prompter,
        diagnostics: Diagnostics | None,
        symbols: Symbols | None,
    ) -> None:
        self.storage = storage
        self._tasks = tasks
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self.off_loop = off_loop
        self._http = http
        self._llm = llm
        self.keys = keys
        configured = settings.effective.settings
        web_search = tool_options(configured, "web_search")
        self._fetcher = WebFetcher(tool_options(configured, "web_fetch"))
        self._sandbox = cache(lambda: _open_sandbox(directories))
        self._ledger = cache(_open_ledger)
        self.directories = directories
        self.settings = settings
        self.journal = journal
        self.models = Models(http, keys.credentials)
        lease = own_lease(journal.epoch)
        self.conversations = Conversations(storage, journal, lease)
        self.approvals = Approvals(storage, prompter)
        self.changes = Changes(storage, journal, self.conversations, documents)
        self._tools = builtin_tools(
            documents,
            cache_dir=directories.cache,
            secret_variables=self._secret_variables,
            found_keys=keys.found,
            protected=(directories.data, directories.config),
            diagnostics=diagnostics,
            symbols=symbols,
            fetcher=self._fetcher,
            searcher=Linkup(http, web_search, api_key),
            changes=self.changes,
            sandbox=self._sandbox,
            ledger=self._ledger,
        )
        self.queue = Queue(storage, journal)
        self.turns = Turns(
            conversations=self.conversations,
            queue=self.queue,
            journal=journal,
            settings=settings,
            models=self.models,
            approvals=self.approvals,
            images=images,
            llm=llm,
            tools=self._tools,
            locate=self._locate,
            redact=self._redact,
            spawn=self.spawn,
            instance=journal.epoch,
        )
        self.transcripts = Transcripts(
            storage,
            journal,
            self.conversations,
            self.turns,
            self.queue,
            self._redact,
            self._forget,
            self.spawn,
            off_loop,
        )
        self.retention = Retention(storage, self.conversations, self.transcripts, off_loop)
        self.windows = Windows(storage, journal, self.conversations, self.turns, lease, self._forget)

    def spawn(self, work: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result | None]:
        """Run a coroutine as a task that this runtime owns; it is cancelled when the runtime closes.

        An error ends that task alone: it is logged, and the result is None.
        """
        task = self._tasks.create_task(_bounded(work, name), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: work.close())  # one that was cancelled before it began
        if self._is_closed:
            task.cancel()
        return task

    async def close(self) -> None:
        """Cancel every turn and wait for its stored end, stop what runs in the background, give the leases back."""
        await self.turns.stop_all(STOP_TIMEOUT)
        self._is_closed = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_TIMEOUT)
        await self.conversations.release_all()
        await self._fetcher.aclose()

    async def warm(self) -> None:
        """Import what the first turn needs, off the loop, in the idle moment after the first conversation is there."""
        await asyncio.sleep(WARM_DELAY)
        await self.off_loop(self._http.warm)
        await self.retention.apply(self.settings.effective.settings.store)

    async def inspect(self, what: str, conversation_id: str) -> Any:
        """A named view of a conversation or of this process. Raises SchemaError for an unknown name or conversation."""
        match what:
            case "server":
                state = await self.sandbox_state()
                return inspection.server_view(self.directories, {"kind": state.kind, "reason": state.reason})
            case "messages":
                conversation = self.conversations.get(conversation_id)
                return inspection.messages_view(conversation, self.conversations.transcript(conversation_id))
            case "usage":
                return usage_view(self.conversations.get(conversation_id), self.conversations.usage(conversation_id))
            case "context":
                return inspection.context_view(await self.turns.view(conversation_id))
            case _:
                known = ", ".join(INSPECTABLE)
                raise SchemaError("invalidParams", f"Cannot inspect {what!r}; known: {known}.", data={"path": "what"})

    async def sandbox_state(self) -> Any:
        """What commands run in: `kind` (bubblewrap, landlock, none), and the `reason` when it is not the best."""
        return await self.off_loop(lambda: self._sandbox().state())

    async def try_model(self, choice: ModelChoice) -> Answer:
        """Ask the model something short, with a tool as in a turn. Raises what is in the way."""
        return await ask_once(self._llm, choice, self.settings.effective.settings.llm_config, self._tools[:1])

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
        instructions = tuple((path, self._redact(text)) for path, text in project.instructions)
        return Scope(
            project.cwd,
            project.root,
            self._redact(project.index_text),
            instructions,
            project.origin,
            project.normalized_origin,
            project.project_id,
        )

    def _secret_variables(self) -> frozenset[str]:
        """Where keys are now: the settings may name another variable at any time."""
        settings = self.settings.effective.settings
        search = tool_options(settings, "web_search")
        headers = variables_of(settings.llm_config.headers.values())
        return secret_variables(settings.llm_config.api_key_env, search.get("api_key_env", ""), *headers)

    def _forget(self, conversation_id: str) -> None:
        """What was shown in the conversation may not be part of it any more: files are read again before edits."""
        self._ledger().forget(conversation_id)

    def _redact(self, text: str) -> str:
        return without_secrets(text, self._secret_variables(), self.keys.found())


def _open_ledger() -> Any:
    from tinsmith.workspace.ledger import Ledger

    return Ledger()


def _open_sandbox(directories: Directories) -> Any:
    from tinsmith.proc.sandbox import Sandbox

    return Sandbox(os.path.join(directories.cache, "sandbox"), os.environ)


@asynccontextmanager
async def open_runtime(
    *,
    documents: Documents,
    prompter: Prompter,
    diagnostics: Diagnostics | None = None,
    symbols: Symbols | None = None,
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

    async def off_loop(work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    store = storage or await off_loop(lambda: Store.open(directories.store))
    http = HttpClient()
    keys = Keys(off_loop)
    images = Images(store, off_loop)
    failure: AgentError | None = None
    try:
        journal = Journal(store, epoch or new_id("s"))
        settings = await off_loop(
            lambda: SettingsService(store, journal, directories.user_file, editor_settings, overrides or {}, off_loop)
        )
        await settings.remember()
        async with asyncio.TaskGroup() as tasks:
            runtime = Runtime(
                storage=store,
                tasks=tasks,
                off_loop=off_loop,
                http=http,
                keys=keys,
                images=images,
                llm=llm or Provider(http, keys.credentials, lambda: new_id("k"), images.load),
                settings=settings,
                journal=journal,
                directories=directories,
                documents=documents,
                prompter=prompter,
                diagnostics=diagnostics,
                symbols=symbols,
            )
            runtime.spawn(runtime.windows.run(), "windows")
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


async def _bounded(work: Coroutine[Any, Any, Result], name: str) -> Result | None:
    """The boundary of background work: what goes wrong in it must not end everything else."""
    try:
        return await work
    except AgentError as error:
        _log.warning("%s: %s", name, error.message)
    except Exception:  # noqa: BLE001  as the boundary of a request, for work that nobody waits for
        _log.exception("%s failed, error %s", name, new_id("e"))
    return None
