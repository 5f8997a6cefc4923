"""The one HTTP client."""
