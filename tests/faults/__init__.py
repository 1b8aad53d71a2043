"""Faults of every kind: killed processes, full and read-only disks, damaged and hostile files, hostile clients."""
