"""The images that every captioner describes."""
