"""The language-server adapter: `tinsmith serve`."""
