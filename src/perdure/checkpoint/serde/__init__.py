"""Serializers of checkpoint savers, under their documented names."""
