"""The one error that a user can mend."""


class UserError(Exception):
    """What the user gave cannot be used: one sentence naming the thing, the value and the mend."""
