# SPDX-License-Identifier: Apache-2.0
"""python -m keel devices: what the command `keel devices` prints."""

import argparse
import json
import sys

from . import Error, backends
from .listing import list_devices, tables


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m keel", description="Keel in Python")
    commands = parser.add_subparsers(dest="command", required=True)
    devices = commands.add_parser("devices", help="list the devices, and every backend's state")
    devices.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    try:
        found = backends()
        rows = list_devices(found)
    except Error as error:
        print(f"keel: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps({"devices": rows, "backends": found}, indent=2))
    else:
        print(tables(rows, found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
