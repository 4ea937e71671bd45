"""Layers that several models share: pure functions over small registered dataclasses of weights."""
