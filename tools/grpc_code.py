"""``python -m tools.grpc_code``: makes the messages of ``gantrymq.grpc`` from Apache's ``.proto`` files.

Needs ``grpcio-tools``. A test makes them again and compares.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from grpc_tools import protoc

HOME: Final = Path(__file__).resolve().parent.parent / "src" / "gantrymq" / "grpc"
FILES: Final = ("definition", "service")
FOLDER: Final = "apache/rocketmq/v2"


def make(home: Path) -> None:
    """Write the descriptions and the stubs into ``home``."""
    proto, names = HOME / "proto", [f"{FOLDER}/{file}.proto" for file in FILES]
    well_known = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        failed = protoc.main(
            ["protoc", f"-I{proto}", f"-I{well_known}", "--include_imports",
             f"--descriptor_set_out={home / 'messages.binpb'}", f"--pyi_out={scratch}", *names]
        )  # fmt: skip
        if failed:
            raise SystemExit("protoc could not read the files")
        for file in FILES:
            stub = (Path(scratch) / FOLDER / f"{file}_pb2.pyi").read_text()
            (home / f"{file}_pb2.pyi").write_text(
                stub.replace("from apache.rocketmq.v2 import", "from gantrymq.grpc import")
            )


if __name__ == "__main__":
    make(HOME)
