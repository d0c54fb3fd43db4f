"""Devices and processes: strategies, clusters and workers."""
