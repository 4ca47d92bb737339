"""scheduld: a daemon that runs things at a time, on Redis or Valkey."""
