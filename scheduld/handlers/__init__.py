"""The handler contract and the built-in handlers."""
