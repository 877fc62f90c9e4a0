# SPDX-License-Identifier: Apache-2.0
"""Failures of Keel."""


class Error(RuntimeError):
    """A failure that Keel returned, with the name of its status and Keel's text.

    status: "KEEL_TIMED_OUT" and so on, as in keel/abi.h; message: the text, which names the argument,
    the plugin or the rank.
    """

    def __init__(self, status: str, message: str):
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"
