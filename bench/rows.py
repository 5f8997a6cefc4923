"""The rows of the table: what they are called, their unit, and what they should be on the machine of the first runs."""

from typing import NamedTuple


class Row(NamedTuple):
    """`aim` is an upper bound; `percentile` says which value of the samples stands in the table."""

    samples: str
    title: str
    unit: str = "ms"
    aim: float | None = None
    percentile: int = 50
    floor: str = ""
    """Whose samples of the floor to compare with, where they have another name."""
    ratio_aim: float | None = None
    """An upper bound of the ratio to the floor."""


ROWS = (
    Row("bare interpreter", "python -c pass"),
    Row("durable write", "4 kB made durable"),
    Row("initialize", "spawn → initialize answered", aim=60, floor="bare interpreter"),
    Row("conversation", "spawn → first conversation", aim=150, floor="bare interpreter"),
    Row("conversation, processor", "the same, processor time"),
    Row("spawn to request", "spawn → request, nobody waits"),
    Row("first prompt", "first prompt → request"),
    Row("later prompt", "later prompt → request", aim=6),
    Row("read round", "read round", aim=7),
    Row("read rounds, processor", "10 read rounds, processor time"),
    Row("bash round", "bash true round", aim=10),
    Row("bash rounds, processor", "10 bash rounds, processor time"),
    Row("confined bash round", "bash true round, sandboxed", aim=25, floor="bash round"),
    Row("flood, ping", "answer while bash writes 1 GB, worst", aim=50, percentile=100),
    Row("flood, memory", "memory that it takes", "MB", aim=40, percentile=100),
    Row("delta relay", "delta relay, median", aim=0.8),
    Row("delta relay", "delta relay, 95 of 100", percentile=95),
    Row("stream", "5,000 deltas, first byte → end", aim=250),
    Row("stream, processor", "5,000 deltas, processor time"),
    Row("turn end", "last byte → turnEnded"),
    Row("cancel", "cancel in a silent stream → end", aim=6),
    Row("cancel, upstream", "cancel → upstream closed"),
    Row("cancel, command", "cancel in bash sleep → end", aim=500),
    Row("memory, conversation open", "memory, conversation open", "MB", aim=60),
    Row("memory, after streams", "memory, after ten streams", "MB", percentile=100),
    Row("first request", "first request", "bytes", aim=8000),
    Row("delta bytes", "delta event without its text", "bytes"),
    Row("connections", "connections of a conversation", "", aim=1),
    Row("delta, chat_completions", "a delta of Chat Completions", "µs", aim=10),
    Row("delta, responses", "a delta of OpenAI Responses", "µs", aim=10),
    Row("delta, anthropic", "a delta of Anthropic Messages", "µs", aim=10),
    Row("delta, ollama", "a delta of Ollama's chat", "µs", aim=10),
    Row("memory of a long answer", "10 MB of stream, kept of it", "MB", ratio_aim=1.1),
    Row("files cold", "code_files, 20,000 files, cold", aim=60),
    Row("files warm", "code_files, warm", aim=15),
    Row("grep with rg", "code_grep with rg", floor="plain rg", ratio_aim=1.3),
    Row("grep without rg", "code_grep without rg", floor="plain rg", ratio_aim=6),
    Row("symbols", "code_symbols of a common name", aim=500),
    Row("read 1 MB", "read in a file of 1 MB", aim=15),
    Row("edit 1 MB", "edit in it, without its fsync", aim=25),
    Row("commit", "commit of 40 records of 2 kB", ratio_aim=2),
    Row("last items", "last 50 of a long conversation", aim=10),
    Row("search", "search, 95 of 100", aim=30, percentile=95),
    Row("search", "search, median"),
    Row("open store", "opening a large store", aim=15),
    Row("index share", "index of a text", "bytes a byte", aim=2.5),
    Row("store memory", "memory that looking into it takes", "MB", aim=10),
    Row("processes left", "processes left after a cancel", "", aim=0),
)
