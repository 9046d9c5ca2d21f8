"""Case tables: one per op family, run on CPU simulation by tests/unit and on a GPU by tests/gpu."""
