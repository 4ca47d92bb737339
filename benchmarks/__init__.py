"""Measures scheduld beside its peers and beside the least a queue on Redis must do."""
