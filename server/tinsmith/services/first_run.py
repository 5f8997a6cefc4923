"""From nothing to a model: which ways there are, which one to propose and why, and whether it works."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from tinsmith.config.layers import Tree, merge, value_at
from tinsmith.config.load import Effective
from tinsmith.config.selection import KEY_VARIABLES
from tinsmith.domain.errors import AgentError, ProtocolError
from tinsmith.domain.ids import new_id
from tinsmith.domain.message import Answer, TextPart, UserMessage
from tinsmith.domain.ports import Model, ModelRequest
from tinsmith.domain.settings import DialectName, LlmSettings, ModelChoice
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.dialects import guess_dialect
from tinsmith.llm.discovery import KNOWN_PROVIDERS, LOCAL_SERVERS, LocalServer, begin_with
from tinsmith.services.models import Models

_LIST_SECONDS = 10.0
_DEFAULT_KEY_ENV = LlmSettings().api_key_env


class Way(msgspec.Struct, frozen=True):
    """One way to a model. `model` is empty where nobody asked for the list yet.

    The key is in the variable `key_env`, or in the keyring's entry `key_entry`; both are empty where none is needed.
    `reason` is a phrase for a person: what spoke for this place, and for this model of it.
    """

    name: str
    base_url: str
    dialect: DialectName
    key_env: str
    model: str = ""
    reason: str = ""
    prefixes: tuple[str, ...] = ()
    key_entry: str = ""


class Findings(msgspec.Struct, frozen=True):
    """What was found: one way to propose or None, the others, and sentences about what did not work."""

    proposal: Way | None
    others: tuple[Way, ...]
    problems: tuple[str, ...]


async def find_ways(
    models: Models,
    settings: Effective,
    environment: Mapping[str, str],
    local_servers: Sequence[LocalServer] = LOCAL_SERVERS,
) -> Findings:
    """Look at the address in the settings, else at the usual keys and then at local servers; the first that works.

    A provider is asked for its models only when its turn comes. An address or a model in the settings is not departed
    from.
    """
    llm, model = settings.settings.llm_config, settings.settings.default_model or ""
    every = await find_others(models, environment, local_servers)
    proposal, problems, tried = None, [] if llm.base_url else _without_address(llm, environment), set[str]()
    for way in [_configured(llm, environment)] if llm.base_url else every:
        tried.add(way.base_url)
        try:
            proposal = await _with_model(models, llm, way, model)
            break
        except AgentError as error:
            problems.append(f"{way.name} ({way.reason}): {error.message}")
    others = tuple(way for way in every if way.base_url not in tried)
    return Findings(proposal, others, tuple(problems))


async def find_others(
    models: Models, environment: Mapping[str, str], local_servers: Sequence[LocalServer] = LOCAL_SERVERS
) -> tuple[Way, ...]:
    """The providers whose keys are in the environment, none of them asked, and the local servers that answer."""
    keyed = (_keyed(known.key_env, environment) for known in KNOWN_PROVIDERS if environment.get(known.key_env))
    local = await models.find_local(local_servers)
    return (
        *keyed,
        *(Way(each.name, each.base_url, guess_dialect(each.base_url), "", each.model, each.reason) for each in local),
    )


def leaves_of(way: Way, settings: Effective) -> dict[str, str | None]:
    """What the user's file must say, by path: the dialect and the key's place only where nothing else tells them."""
    standing = _standing(settings)
    leaves: dict[str, str | None] = {"default_model": way.model, "llm_config.base_url": way.base_url}
    if way.dialect != (value_at(standing, "llm_config.dialect") or guess_dialect(way.base_url)):
        leaves["llm_config.dialect"] = way.dialect
    key_entry = way.key_entry or None
    if key_entry != value_at(standing, "llm_config.api_key_keyring"):
        leaves["llm_config.api_key_keyring"] = key_entry
    key_env = way.key_env or _DEFAULT_KEY_ENV
    if not key_entry and key_env != value_at(standing, "llm_config.api_key_env"):
        leaves["llm_config.api_key_env"] = key_env
    return leaves


def is_configured(settings: Effective) -> bool:
    """Whether a model and its address are settled for good, and not only for this process."""
    standing = _standing(settings)
    names = ("default_model", "models.default", f"models.{settings.settings.active_role}")
    return bool(value_at(standing, "llm_config.base_url")) and any(value_at(standing, name) for name in names)


async def ask_once(llm: Model, choice: ModelChoice, settings: LlmSettings, tools: tuple[ToolSpec, ...]) -> Answer:
    """One short request with these tools. Raises what the provider's refusal means, ProtocolError `emptyAnswer`."""
    message = UserMessage(new_id("m"), new_id("t"), (TextPart("Answer with one word: ready."),))
    answer = Answer()
    async for batch in llm.stream(ModelRequest(choice, "You are being tried out.", (message,), tools), settings):
        answer = next((delta for delta in batch if isinstance(delta, Answer)), answer)
    if answer.is_empty:
        raise ProtocolError("emptyAnswer", f"{choice.model} answered with nothing. Try another model with --model.")
    return answer


def _standing(settings: Effective) -> Tree:
    """The settings without what only this process was told."""
    return merge(*(settings.layers[name] for name in ("defaults", "user", "persisted")))


def _keyed(key_env: str, environment: Mapping[str, str]) -> Way:
    (known,) = (each for each in KNOWN_PROVIDERS if each.key_env == key_env)
    address = environment.get(known.address_env, "") or known.base_url
    dialect = known.dialect or guess_dialect(address)
    return Way(known.name, address, dialect, key_env, "", f"{key_env} is set", known.prefixes)


def _configured(llm: LlmSettings, environment: Mapping[str, str]) -> Way:
    """The way to the address that the settings name, with the key that goes with it."""
    address = llm.base_url or ""
    host = urlsplit(address).hostname or address
    known = next((each for each in KNOWN_PROVIDERS if urlsplit(each.base_url).hostname == host), None)
    variables = (llm.api_key_env, known.key_env if known else "")
    entry = llm.api_key_keyring or ""
    key_env = "" if entry else next((variable for variable in variables if environment.get(variable)), "")
    dialect = llm.dialect or guess_dialect(address)
    prefixes = known.prefixes if known else ()
    return Way(host, address, dialect, key_env, "", "its address was given", prefixes, entry)


def _without_address(llm: LlmSettings, environment: Mapping[str, str]) -> list[str]:
    """What is to be said of a key that does not tell whose it is."""
    names = dict.fromkeys((llm.api_key_env, *KEY_VARIABLES))
    known = {each.key_env for each in KNOWN_PROVIDERS}
    places = [
        ("The keyring's entry", "named", "--api-key-keyring", llm.api_key_keyring),
        *(("", "set", "--api-key-env", name) for name in names if environment.get(name) and name not in known),
    ]
    return [
        f"{kind} {name} is {state}, but nothing says whose key it is. Give the provider's address: "
        f"tinsmith setup --base-url URL {option} {name}".lstrip()
        for kind, state, option, name in places
        if name
    ]


async def _with_model(models: Models, llm: LlmSettings, way: Way, model: str) -> Way:
    """The way with its model: the wanted one, else one listed. Raises as Models.fetch, ProtocolError `noModels`."""
    if model:
        return msgspec.structs.replace(way, model=model, reason=f"{way.reason}; the model was given")
    if way.model:
        return way
    asked = msgspec.structs.replace(
        llm,
        base_url=way.base_url,
        dialect=way.dialect,
        api_key_env=way.key_env or _DEFAULT_KEY_ENV,
        api_key_keyring=way.key_entry or None,
        headers=llm.headers if way.base_url == llm.base_url else {},
        connect_timeout=min(_LIST_SECONDS, llm.connect_timeout),
    )
    listed = await models.fetch(asked)
    chosen = begin_with(listed, way.prefixes)
    if chosen is None:
        raise ProtocolError("noModels", f"{way.base_url} lists no model that can answer. Name one with --model.")
    reason = f"of {len(listed)} models this one was taken: {chosen.reason}"
    return msgspec.structs.replace(way, model=chosen.model_id, reason=f"{way.reason}; {reason}")
