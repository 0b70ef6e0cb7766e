"""Messages of Protobuf by Google's compiler and library, which share nothing with this program."""

from __future__ import annotations

import importlib.resources
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc


def compiled(files: Mapping[str, str]) -> Any:
    """The set of descriptors of all files and what they import."""
    built_in = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = Path(folder) / "set"
        command = ["", f"-I{folder}", f"-I{built_in}", "--include_imports"]
        assert protoc.main([*command, f"--descriptor_set_out={out}", *files]) == 0
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def messages(files: Mapping[str, str]) -> dict[str, Any]:
    """The class of each message that is no map entry, by its full name."""
    pool = descriptor_pool.DescriptorPool()
    found = compiled(files)
    for file in found.file:
        pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for file in found.file
        for name in names_in(file.package, file.message_type)
    }


def names_in(scope: str, declared: Any) -> list[str]:
    """The full names of messages and of those in them."""
    found = []
    for one in declared:
        if not one.options.map_entry:
            name = f"{scope}.{one.name}" if scope else one.name
            found += [name, *names_in(name, one.nested_type)]
    return found
