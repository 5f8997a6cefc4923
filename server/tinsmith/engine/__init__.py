"""The turn. Knows the domain only; every effect goes through a port."""
