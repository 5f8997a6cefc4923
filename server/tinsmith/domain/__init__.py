"""The words: values and ports that every other room shares. Standard library and msgspec only."""
