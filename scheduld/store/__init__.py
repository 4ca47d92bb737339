"""Everything that is kept in Redis: keys, scripts, connections, the embedded server."""
