"""What a running replica tells: logs."""
