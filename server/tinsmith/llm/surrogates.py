"""Text that UTF-8 can carry."""


def mend(text: str) -> str:
    """`text` with surrogate pairs as the character they mean and lone surrogates as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
