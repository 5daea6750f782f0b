"""The guarded connection to addresses that strangers choose."""
