"""What a worker refused or could not do."""


class Failure(RuntimeError):
    """What a worker refused or could not do. `code` as docs/protocol.md lists them."""

    def __init__(self, code, message, where="", hint=""):
        super().__init__(message + (f" ({hint})" if hint else ""))
        self.code, self.message, self.where, self.hint = code, message, where, hint

    def again(self):
        """The same for another caller: each has where it was thrown, and by what, of its own."""
        return Failure(self.code, self.message, self.where, self.hint)
