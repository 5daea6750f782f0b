"""The live bus over NATS, for processes on many machines."""
