"""The command `prairie`, as the binary has it."""

import os
import sys

from prairie._prairie import command


def main() -> int:
    """Runs the command with the process's arguments and returns its exit code."""
    return command(["prairie", *map(os.fsdecode, sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
