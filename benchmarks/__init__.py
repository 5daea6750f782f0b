"""What a step, a delta and a run cost, in CPU time: `make bench`, `make bench PEERS=1`."""
