"""The guarded connection to untrusted addresses."""
