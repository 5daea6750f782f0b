"""Running a phase: gather what hooks want, commit it, work off scheduled actions."""
