"""An image stays as long as a message of any conversation has it, live or rewound, and leaves with the last one."""

import pytest
from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.message import ImagePart, TextPart, UserMessage
from tinsmith.services.editing import delete, edit
from tinsmith.services.erasing import clear, erase
from tinsmith.services.forking import fork
from tinsmith.services.rewinding import rewind
from tinsmith.store import InMemoryStore, Store


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    store = Store.open(str(tmp_path)) if request.param == "disk" else InMemoryStore()
    yield store
    await store.close()


@pytest.fixture
async def images(storage):
    """Two stored images; both stand in the first message of `c_1`, the second one also in its next turn."""

    def write(session):
        first, second = (ImagePart(session.blobs.put(content), "image/png") for content in (b"one", b"two"))
        session.conversations.put(Conversation("c_1", "/w", 1, 1))
        session.messages.append("c_1", UserMessage("", "t_1", (TextPart("look"), first, second)))
        session.messages.append("c_1", UserMessage("", "t_2", (TextPart("again"), second)))
        return first.blob, second.blob

    return await storage.write(write)


def kept(storage, images):
    return [storage.read(lambda session, name=name: session.blobs.get(name)) for name in images]


async def test_a_deleted_message_takes_the_images_that_no_other_has(storage, images):
    await storage.write(lambda session: rewind(session, "c_1", "t_1"))
    await storage.write(lambda session: delete(session, "c_1", "m00000000"))
    assert kept(storage, images) == [None, b"two"]


async def test_an_edited_message_keeps_its_images(storage, images):
    edited = await storage.write(lambda session: edit(session, "c_1", "m00000000", "see"))
    assert edited.messages[0].parts[0] == TextPart("see")
    assert [image.blob for image in edited.messages[0].images] == list(images)
    assert kept(storage, images) == [b"one", b"two"]


@pytest.mark.parametrize("remove", [clear, erase])
async def test_images_leave_with_the_last_conversation_that_has_them(storage, images, remove):
    def copy(session):
        target = Conversation("c_2", "/w", 1, 1)
        session.conversations.put(target)
        fork(session, "c_1", None, target)

    await storage.write(copy)
    await storage.write(lambda session: remove(session, "c_1"))
    assert kept(storage, images) == [b"one", b"two"]
    await storage.write(lambda session: delete(session, "c_2", "m00000000"))
    assert kept(storage, images) == [None, b"two"]
    await storage.write(lambda session: remove(session, "c_2"))
    assert kept(storage, images) == [None, None]


async def test_a_message_stored_again_counts_once(storage, images):
    def again(session):
        message = session.messages.get("c_1", "m00000000")
        session.messages.put("c_1", replace(message, created_at=9))
        erase(session, "c_1")

    await storage.write(again)
    assert kept(storage, images) == [None, None]
