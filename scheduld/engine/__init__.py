"""The loops of a replica."""
