"""The pure calendar: which instants a cron expression, a grid or a ladder names.

No clock is read here and nothing is waited for. Instants are whole milliseconds since the
epoch; a *wall* time is what the clocks of a zone show, counted in the same way as if it were UTC.
"""
