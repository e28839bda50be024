"""The simulator of errors: shapes of a strut tower, what its sensors get wrong, and how far the estimators are off."""
