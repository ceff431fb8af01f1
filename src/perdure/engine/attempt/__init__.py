"""How one task is carried out: its body, and what is wrapped around it. Generators all."""

from perdure.engine.attempt.body import body
from perdure.engine.attempt.retry import attempts

__all__ = ["attempts", "body"]
