"""Text-to-image models: latents, fine-tuning, generation, scores."""
