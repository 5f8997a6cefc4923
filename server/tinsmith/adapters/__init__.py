"""How the outside talks to us. Adapters are strangers to each other and speak to the runtime in values only."""
