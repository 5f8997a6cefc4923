"""Stores of other versions: older ones are brought to our form, whole or not at all; newer ones are left alone."""

import asyncio
import json
import subprocess
import sys

import lmdb
import pytest
from tests.docs.pages import ROOT

from tinsmith.domain.errors import PersistenceError
from tinsmith.store import InMemoryStore, Note, Store, migrate
from tinsmith.store.inmemory import _MemoryTransaction
from tinsmith.store.transaction import KEYSPACES

OLD = json.loads((ROOT / "tests" / "store" / "schema_2.json").read_text())
"""A store as version 2 wrote it: keyspace → key → record. One record is torn."""
C = "c_018f6b7a2c00a1b2c3d4"


def plant(path, rows) -> None:
    """A store of exactly these records."""
    with lmdb.open(str(path), max_dbs=32) as environment, environment.begin(write=True) as transaction:
        for keyspace, records in rows.items():
            database = environment.open_db(keyspace.encode(), txn=transaction)
            for key, value in records.items():
                transaction.put(key.encode(), value.encode(), db=database)


def dump(path, keyspaces=KEYSPACES) -> dict[str, dict[str, str]]:
    rows = {}
    with lmdb.open(str(path), max_dbs=32) as environment, environment.begin(write=True) as transaction:
        for keyspace in keyspaces:
            database = environment.open_db(keyspace.encode(), txn=transaction)
            rows[keyspace] = {key.decode(): value.decode() for key, value in transaction.cursor(database)}
    return rows


def test_the_step_from_2_to_3_lets_every_message_wait():
    store = InMemoryStore()
    transaction = _MemoryTransaction(store._tables, may_change=True)
    for key, value in OLD["message"].items():
        transaction.put("message", key.encode(), value.encode())
    changes = [*migrate.STEPS[2](_MemoryTransaction(store._tables, may_change=False))]
    assert changes == [("message_search", b"p" + key.encode(), b"") for key in sorted(OLD["message"])]


async def test_a_store_of_version_2_keeps_its_records_and_is_searched(tmp_path):
    plant(tmp_path, OLD)
    store = Store.open(str(tmp_path))
    messages, set_aside = store.read(lambda s: (s.messages.all(C), s.set_aside))
    assert [message.message_id for message in messages] == [f"m{number:08d}" for number in range(4)]
    assert set_aside == (f"message/{C}:m00000004",)
    hits = store.read(lambda s: s.search.find("boiling")).hits
    assert sorted(hit.message_id for hit in hits) == ["m00000002", "m00000003"]
    assert await store.write(lambda s: s.search.fold(1))
    assert len(store.read(lambda s: s.search.find("boil over")).hits) == 1
    await store.close()
    after = dump(tmp_path, OLD)
    assert after == {**OLD, "meta": {**OLD["meta"], "schema_version": "3"}}


async def test_a_step_that_fails_leaves_the_old_store(tmp_path, monkeypatch):
    plant(tmp_path, OLD)

    def half(_):
        yield "message", f"{C}:m00000000".encode(), b"{}"
        yield "message", f"{C}:m00000001".encode(), None
        raise LookupError("on purpose")

    monkeypatch.setattr(migrate, "STEPS", {2: migrate.STEPS[2], 3: half})
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 4)
    with pytest.raises(LookupError):
        Store.open(str(tmp_path))
    assert dump(tmp_path, OLD) == OLD


@pytest.mark.parametrize(("version", "words"), [(4, "a newer Tinsmith"), (1, "an older Tinsmith")])
async def test_the_store_of_another_version_is_left_alone(tmp_path, version, words):
    rows = {**OLD, "meta": {"schema_version": str(version)}}
    plant(tmp_path, rows)
    for _ in range(2):  # the refusal also lets go of the files
        with pytest.raises(PersistenceError, match=words) as caught:
            Store.open(str(tmp_path))
        assert (caught.value.code, caught.value.data) == ("storeVersion", {"found": version, "known": 3})
    assert dump(tmp_path, rows) == rows


NEWER = """
import lmdb, sys
with lmdb.open(sys.argv[1], max_dbs=32) as environment, environment.begin(write=True) as transaction:
    transaction.put(b"schema_version", b"4", db=environment.open_db(b"meta", txn=transaction))
"""


async def test_nothing_more_is_stored_once_a_newer_version_has_the_store(tmp_path):
    """It comes in another process while this one has the store open."""
    store = Store.open(str(tmp_path))
    await store.write(lambda s: s.notes.put(C, Note("before", "x", 0)))
    subprocess.run((sys.executable, "-c", NEWER, str(tmp_path)), check=True)
    for attempt in (
        lambda: store.write(lambda s: s.notes.put(C, Note("after", "x", 0))),
        lambda: asyncio.to_thread(store.read, lambda s: s.notes.all(C)),
    ):
        with pytest.raises(PersistenceError, match="restart this server") as caught:
            await attempt()
        assert caught.value.code == "storeVersion"
    await store.close()
    assert list(dump(tmp_path)["conversation_note"]) == [f"{C}:before"]
