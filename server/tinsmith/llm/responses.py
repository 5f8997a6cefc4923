"""The OpenAI Responses dialect."""

from tinsmith.llm.dialect import Dialect, bearer
from tinsmith.llm.responses_assembly import ResponsesAssembly
from tinsmith.llm.responses_events import TITLE
from tinsmith.llm.responses_request import encode_request
from tinsmith.llm.sse import SseSplitter

RESPONSES = Dialect(
    name="responses",
    title=TITLE,
    path="/responses",
    models_path="/models",
    media_type="text/event-stream",
    headers=bearer,
    encode=encode_request,
    splitter=SseSplitter,
    assembly=ResponsesAssembly,
)
