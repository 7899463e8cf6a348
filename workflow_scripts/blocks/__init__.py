"""The built-in world: rendered pictures whose every fact is known, and tiny models that learn them in minutes."""
