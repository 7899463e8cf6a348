"""capsweep's stages as importable code: one sub-package a stage, nothing here knows of Snakemake."""
