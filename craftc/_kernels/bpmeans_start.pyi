"""Starts of the feature models: functions for the other kernels, none for Python."""
