"""The one error that a user's input may cause: caught at the top, printed, exit code 2."""


class UserError(Exception):
    """One clear sentence that names the thing, the value seen and the mend."""
