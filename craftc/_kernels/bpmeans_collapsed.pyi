"""Collapsed sweeps of BP-means: functions for the other kernels, none for Python."""
