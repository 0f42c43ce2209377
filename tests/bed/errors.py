"""The one error of the bed, whose text says what was found and what to do about it."""


class BedError(Exception):
    """Something that the user of the bed can act on; the text names the remedy."""
