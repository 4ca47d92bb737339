"""The process that runs handlers apart from the daemon; `engine.processes` is its other end."""
