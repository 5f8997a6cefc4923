"""The dialect of Ollama's native chat, which, unlike its `/v1`, heeds the size of the context."""

from tinsmith.llm.dialect import Dialect, bearer
from tinsmith.llm.ndjson import LineSplitter
from tinsmith.llm.ollama_assembly import TITLE, OllamaAssembly
from tinsmith.llm.ollama_request import encode_request
from tinsmith.llm.profiles import OLLAMA as OLLAMA_PROFILE

OLLAMA = Dialect(
    name="ollama",
    title=TITLE,
    path="/api/chat",
    models_path="/api/tags",
    media_type="application/x-ndjson",
    headers=bearer,
    encode=encode_request,
    splitter=LineSplitter,
    assembly=OllamaAssembly,
    profile=OLLAMA_PROFILE,
)
