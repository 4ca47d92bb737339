"""The Python API: the same verbs in `AsyncClient` and `Client`, from one implementation."""
