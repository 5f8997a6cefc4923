"""The project on disk: paths, text, edits, files."""
