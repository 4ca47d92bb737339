"""Pure choices: what happens next, and when."""
