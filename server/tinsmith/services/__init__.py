"""Long-lived nouns: conversations, turns, the journal, settings. Each owns one of them."""
