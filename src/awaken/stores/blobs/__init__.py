"""Blob stores: in a folder, and in memory."""
