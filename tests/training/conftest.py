"""Fabric marks the environment for its own use when it is imported; let that happen before any test."""

import lightning_fabric

__all__ = ["lightning_fabric"]
