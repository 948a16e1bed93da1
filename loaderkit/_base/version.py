"""The version; the package, its wheel and saved states read it here."""

__version__ = "0.1.0"
