"""Running a phase: call its hooks, commit their commands, carry out scheduled actions."""
