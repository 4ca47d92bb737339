"""Config: one typed, frozen model from one TOML file."""
