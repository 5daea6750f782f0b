"""From a model's stream of events to its answer, and back."""
