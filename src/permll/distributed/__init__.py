"""Training with several processes: process groups, sharded state, shared networks and launching."""
