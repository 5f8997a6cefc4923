"""Tinsmith: a coding agent that lives behind an editor's language client."""

__version__ = "0.1.0"
