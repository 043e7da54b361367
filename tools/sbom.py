"""The bill of materials of a wheel: what is in it, what it asks for, and what built it.

CycloneDX 1.6 as JSON, in the wheel's folder that PEP 770 has for it. It says nothing of when or
where, so the same sources and tools give the same bytes.
"""

from __future__ import annotations

import base64
import email
import hashlib
import json
import re
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = "sboms/npaccel.cdx.json"
CORE = "The C core. Its loops that are compiled ahead were emitted by npaccel through LLVM."


def _library(requirement: str) -> dict[str, Any]:
    """A package that the wheel asks for; it is not in it."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}",
        "name": name,
        "purl": f"pkg:pypi/{name}",
        "scope": "required",
        "properties": [{"name": "npaccel:requirement", "value": requirement}],
    }


def _file(name: str, content: bytes) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": name,
        "name": name,
        "description": CORE,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
    }


def document(contents: Mapping[str, bytes], tools: Mapping[str, str]) -> dict[str, Any]:
    """The bill of materials of a wheel's files by name; `tools`: name to version."""
    (name,) = [n for n in contents if n.endswith(".dist-info/METADATA")]
    about = email.message_from_bytes(contents[name])
    asked = [r for r in about.get_all("Requires-Dist", []) if "extra ==" not in r]
    itself = f"pkg:pypi/npaccel@{about['Version']}"
    files = [_file(n, contents[n]) for n in sorted(contents) if n.endswith(".so")]
    needed = [_library(requirement) for requirement in asked]
    made: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "tools": {
                "components": [
                    {"type": "application", "name": tool, "version": version}
                    for tool, version in sorted(tools.items())
                ]
            },
            "component": {
                "type": "library",
                "bom-ref": itself,
                "name": "npaccel",
                "version": about["Version"],
                "description": about["Summary"],
                "licenses": [{"license": {"id": about["License-Expression"]}}],
                "purl": itself,
            },
        },
        "components": files + needed,
        "dependencies": [{"ref": itself, "dependsOn": [c["bom-ref"] for c in files + needed]}],
    }
    text = json.dumps(made, sort_keys=True)
    return made | {"serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, text).urn}


def add(wheel: Path, tools: Mapping[str, str]) -> None:
    """Put it into the wheel, and into the wheel's list of files."""
    with zipfile.ZipFile(wheel) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        contents = {name: archive.read(name) for name in entries}
    (record,) = [name for name in entries if name.endswith(".dist-info/RECORD")]
    new = record.removesuffix("RECORD") + NAME
    text = json.dumps(document(contents, tools), indent=1).encode() + b"\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    contents[record] += f"{new},sha256={digest},{len(text)}\n".encode()
    entries[new] = zipfile.ZipInfo(new, entries[record].date_time)
    entries[new].external_attr = entries[record].external_attr
    entries[new].compress_type = zipfile.ZIP_DEFLATED
    contents[new] = text
    made = wheel.with_suffix(".new")
    with zipfile.ZipFile(made, "w") as archive:
        for name in [*(n for n in entries if n != record), record]:  # which is the last, as a rule
            archive.writestr(entries[name], contents[name])
    made.replace(wheel)
