"""Headrace inside web frameworks: a module for each, which needs that framework alone."""
