"""Least squares features of given memberships: functions for the other kernels, none for Python."""
