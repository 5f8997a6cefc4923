"""The Chat Completions dialect, which most servers speak."""

from tinsmith.llm.chat_assembly import ChatAssembly
from tinsmith.llm.chat_chunks import TITLE
from tinsmith.llm.chat_request import encode_request
from tinsmith.llm.dialect import Dialect, bearer
from tinsmith.llm.sse import SseSplitter

CHAT_COMPLETIONS = Dialect(
    name="chat_completions",
    title=TITLE,
    path="/chat/completions",
    models_path="/models",
    media_type="text/event-stream",
    headers=bearer,
    encode=encode_request,
    splitter=SseSplitter,
    assembly=ChatAssembly,
)
