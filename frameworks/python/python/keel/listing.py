# SPDX-License-Identifier: Apache-2.0
"""The devices of the machine as text, in the words of the command `keel devices`."""

from typing import Any

from ._C import Device
from .errors import Error

Row = dict[str, Any]


def list_devices(backends: list[Row]) -> list[Row]:
    """The devices in the order of their backends; a row with "error" cannot be opened."""
    rows = []
    for backend in backends:
        for ordinal in range(backend["device_count"]):
            row = {"name": f"{backend['name']}:{ordinal}", "backend": backend["name"]}
            try:
                device = Device(row["name"])
                row |= {"chip": device.chip} | device.info()
                health = _health(device)
                if health is not None:
                    row["health"] = health
            except Error as error:
                row = {"name": row["name"], "backend": row["backend"], "error": str(error)}
            rows.append(row)
    return rows


def tables(rows: list[Row], backends: list[Row]) -> str:
    text = f"{'device':<14} {'type':<6} {'architecture':<14} {'memory':>10}  name\n"
    listed = set()
    for i, row in enumerate(rows):
        if i in listed:
            continue
        text += _device_text(row, is_first=True)
        # Other devices of the same chip.
        for j in range(i + 1, len(rows) if "error" not in row else 0):
            if "error" not in rows[j] and rows[j]["chip"] == row["chip"]:
                listed.add(j)
                text += _device_text(rows[j], is_first=False)
    text += "" if rows else "none\n"
    text += f"\n{'backend':<14} {'devices':>7}  status\n"
    for backend in backends:
        text += f"{backend['name']:<14} {backend['device_count']:>7}  {_status_text(backend)}\n"
    return text if backends else text + "none\n"


def _health(device: Device) -> Row | None:
    try:
        return device.health()
    except Error:
        return None


def _memory_text(size: int) -> str:
    return "unknown" if size == 0 else f"{size / 2**30:.1f} GiB"


def _health_text(health: Row) -> str:
    text = "ok"
    if not health["ok"]:
        text = "not to be used"
    elif health["throttled"]:
        text = "throttled"
    if health["corrected_ecc"]:
        text += f", {health['corrected_ecc']} corrected ECC errors"
    return text + (f" ({health['text']})" if health["text"] else "")


def _status_text(backend: Row) -> str:
    if backend["status"] != "KEEL_OK":
        return f"{backend['status']}: {backend['reason']}"
    return "ready" if backend["device_count"] else f"no device: {backend['reason']}"


def _device_text(row: Row, is_first: bool) -> str:
    if "error" in row:
        return f"{row['name']:<14} cannot be opened: {row['error']}\n"
    if is_first:
        memory = _memory_text(row["memory_bytes"])
        text = (f"{row['name']:<14} {row['type']:<6} {row['architecture']:<14} {memory:>10}  "
                f"{row['description']}\n")
    else:
        text = f"  also    {row['name']}, which calls it {row['description']}\n"
    text += f"  driver  {row['driver'] or 'unknown'}\n"
    text += f"  capabilities  {', '.join(row['capabilities'])}\n"
    if "health" in row:
        text += f"  health  {_health_text(row['health'])}\n"
    return text
