"""Keys from the system's keyring: read off the loop, once, and what is said when there is none."""

import asyncio
import sys
import threading

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from tinsmith.domain.errors import AgentError
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.endpoint import Credentials, resolve
from tinsmith.services.keys import Keys, without_secrets

SETTINGS = LlmSettings(base_url="https://api.example.com/v1", api_key_keyring="work", api_key_env="OTHER_KEY")


class Backend(KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.entries = {("tinsmith", "work"): "kr-secret-123", ("other", "play"): "kr-other"}
        self.asked = []
        self.failure = None

    def get_password(self, service, username):
        self.asked.append((service, username, threading.current_thread() is threading.main_thread()))
        if self.failure:
            raise self.failure
        return self.entries.get((service, username))

    def set_password(self, service, username, password):
        self.entries[service, username] = password


@pytest.fixture
def backend(monkeypatch):
    before = keyring.get_keyring()
    made = Backend()
    keyring.set_keyring(made)
    monkeypatch.setenv("OTHER_KEY", "sk-of-another-9")
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def keys():
    return Keys(asyncio.to_thread)


async def test_an_entry_goes_before_the_variable_and_is_asked_for_once(backend, keys):
    for _ in range(2):
        assert await keys.credentials(SETTINGS) == Credentials("kr-secret-123")
    assert backend.asked == [("tinsmith", "work", False)]
    assert keys.found() == ("kr-secret-123",)
    assert without_secrets("it is kr-secret-123.", (), keys.found()) == "it is «redacted»."


async def test_without_an_entry_the_keyring_is_left_alone(backend, keys):
    assert await keys.credentials(LlmSettings(api_key_env="OTHER_KEY")) == Credentials("sk-of-another-9")
    assert backend.asked == []


async def test_an_entry_that_is_not_there_is_never_replaced_by_another_key(backend, keys):
    settings = LlmSettings(base_url=SETTINGS.base_url, api_key_keyring="play", api_key_env="OTHER_KEY")
    found = await keys.credentials(settings)
    assert found == Credentials()
    with pytest.raises(AgentError, match="keyring set tinsmith play"):
        resolve(settings, found, "/models", lambda key, host: {})
    backend.entries["tinsmith", "play"] = "kr-later-1"
    assert (await keys.credentials(settings)).key == "kr-later-1"


@pytest.mark.parametrize("failure", [KeyringLocked("holds kr-secret-123"), RuntimeError("kr-secret-123"), OSError()])
async def test_a_keyring_that_fails_is_named_without_its_words(backend, keys, failure):
    backend.failure = failure
    with pytest.raises(AgentError) as failed:
        await keys.credentials(SETTINGS)
    assert (failed.value.code, failed.value.retryable) == ("keyringFailed", False)
    assert type(failure).__name__ in failed.value.message
    assert "kr-secret" not in failed.value.message


async def test_the_extra_is_asked_for_when_it_is_not_there(monkeypatch, keys):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(AgentError, match=r"tinsmith\[keyring\]") as failed:
        await keys.credentials(SETTINGS)
    assert failed.value.code == "keyringMissing"


async def test_a_keyring_that_waits_for_somebody_is_not_waited_for():
    async def off_loop(work):
        await asyncio.Event().wait()

    with pytest.raises(AgentError, match="Unlock it") as failed:
        await Keys(off_loop).credentials(LlmSettings(api_key_keyring="work", connect_timeout=0.05))
    assert failed.value.code == "timeout"


async def test_the_secrets_of_headers_are_known(monkeypatch, keys):
    monkeypatch.setenv("GATEWAY_KEY", "gw-12345")
    settings = LlmSettings(api_key_env="NO_KEY", headers={"X-Key": "k ${GATEWAY_KEY}", "x-title": "t"})
    found = await keys.credentials(settings)
    assert found == Credentials("", {"x-key": "k gw-12345", "x-title": "t"}, ("gw-12345",))
    assert "gw-" not in repr(found)
