"""The floor: the least that an at-least-once queue on Redis must do, in a bare Python loop."""
