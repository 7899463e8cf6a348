"""Captions of the pool: shards, manifests, statistics."""
