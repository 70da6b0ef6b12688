"""Sweeps over the branches of all tenants: what is due, found page by page, and started."""
