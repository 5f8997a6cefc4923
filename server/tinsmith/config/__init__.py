"""Configuration: layers, their schema, and which leaf came from where."""
