"""What of the checklist of a release (docs/releasing.md) a machine can do."""
