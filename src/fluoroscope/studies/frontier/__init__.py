"""Where attacks end: studies beyond the papers'."""
