"""Control over what compaction made, for operators: of a branch, and of all that a tenant has."""
