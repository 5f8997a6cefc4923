"""One line has one number in every tool and in the editor, whatever its positions count (EDIT-09)."""

import re

import pytest
from tests.wire.buffer import Buffer

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

NAME = "a.py"
TEXT = "# 😋 \u2028 naïve\x0c\r\n\n# \x85 🚀 \rstill\ndef needle(): pass  # 😋\n# é\n"
LOOK = reply(
    Call("code_grep", {"pattern": "needle"}),
    Call("code_outline", {"path": NAME}),
    Call("code_symbols", {"query": "needle"}),
    Call("read", {"path": NAME}),
)


def replace_what_was_read(request):
    read = request.messages[-1].content
    known = re.search(r"^hash: (\w+)$", read, re.MULTILINE)[1]
    number = int(re.search(r"^ *(\d+)\tdef needle", read, re.MULTILINE)[1])
    edit = {"op": "replace", "start": number, "text": "def needle(): ...  # 🚀"}
    return reply(Call("edit", {"path": NAME, "hash": known, "edits": [edit]}))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_a_line_has_one_number(connect, workspace, encoding):
    (workspace / NAME).write_text("# on disk\n")
    settings = {"settings": {"permission_mode": "edits"}}
    async with LoopbackServer(ScriptedModel([LOOK, replace_what_was_read, reply("Done.")])) as provider:
        client = await connect(provider.base_url, encodings=[encoding], initializationOptions=settings)
        uri = client.open(workspace / NAME, TEXT)
        buffer = Buffer(client, encoding=encoding)
        await client.turn("change it")
    grep, outline, symbols, read, _ = [event["result"] for event in client.events("toolUpdated") if "result" in event]
    assert f"{NAME}:4:def needle" in grep
    assert "function needle :4\n" in outline
    assert symbols == f"function needle {NAME}:4\n"
    assert "    4\tdef needle" in read
    (edit,) = buffer.asked[0]["documents"][0]["edits"]
    assert edit["range"]["start"] == {"line": 3, "character": 0}
    assert client.texts[uri][1] == TEXT.replace("pass  # 😋", "...  # 🚀")
