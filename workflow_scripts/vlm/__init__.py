"""Understanding: captions become vision-language models, and their answers become scores."""
