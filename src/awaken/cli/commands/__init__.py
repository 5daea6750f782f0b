"""The commands of `awaken`, one module each."""
