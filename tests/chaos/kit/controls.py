"""The page that tests/chaos/faults.cc reads: failing disks and jumping clocks of one process."""

import mmap
import pathlib
import struct

# Same order as struct Controls in faults.cc.
CONTROLS = ["wall_offset_ns", "sync_fails_at", "write_fails_at", "short_write", "sync_delay_ms", "syncs_failed",
            "writes_failed"]
SIZE = 4096


class Controls:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.write_bytes(bytes(SIZE))
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), SIZE)

    def __getitem__(self, name):
        return struct.unpack_from("<q", self.page, 8 * CONTROLS.index(name))[0]

    def __setitem__(self, name, value):
        struct.pack_into("<q", self.page, 8 * CONTROLS.index(name), value)

    def heal(self):
        for name in CONTROLS[:5]:
            self[name] = 0
