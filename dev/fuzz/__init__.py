"""Coverage-guided fuzzing of the compiled core."""
