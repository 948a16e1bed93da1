"""What a test file says to pytest and hypothesis when a worker process imports it, which runs no test."""


class Unused:
    """A mark, a decorator, a strategy, a setting or a base class: whatever is done with it gives it again."""

    def __getattr__(self, name: str) -> "Unused":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: object, **named: object) -> "Unused":
        return self

    __getitem__ = __or__ = __ror__ = __mul__ = __rmul__ = __floordiv__ = __call__

    def __gt__(self, other: object) -> bool:
        return False

    __lt__ = __gt__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()
