"""Verification: what is stored is compared with its hashes, its numbers and what it belongs to.

It reads. What it finds is told, as events of the branch, and never repaired.
"""
