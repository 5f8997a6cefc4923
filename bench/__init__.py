"""What the language server costs in time, bytes and memory, beside the least that the same work could cost."""
