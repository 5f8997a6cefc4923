"""The demo model: a loopback provider, its script, the sample project."""
