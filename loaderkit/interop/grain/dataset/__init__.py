"""Grain's Dataset API: trees of steps as data sources of the engine, and what comes after them in order."""
