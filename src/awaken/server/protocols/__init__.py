"""Protocols that clients speak: each has an ingest (a request in, an `Intake` out) and an encoder
(events in, chunks out). Pure: no I/O, no clock but the events' own."""
