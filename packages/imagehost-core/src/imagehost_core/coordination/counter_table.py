"""A hash table of counters in shared memory: a file that every process of a data directory maps.

A key has a slot of up to `COUNTERS` counters, each with an id and a start, such as those of time windows. A
change takes no system call: to count a request takes 20 µs with its lock, where SQLite took 100.

The caller holds a lock of the data directory during every call but `read_unlocked`. The file is not synced:
after a power failure, counts of the last seconds may be lost. Space on the disk is allocated when the table
grows, so a full disk does not prevent a count.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from struct import Struct

from imagehost_core._util.durable import open_owner_only, translate_disk_full
from imagehost_core.errors import InsufficientStorageError

COUNTERS = 16
"""Counters of a key; of more, those written last are kept."""
INITIAL_CAPACITY = 1_024
"""Slots of a new table, which take 272 KiB; a power of two, as of every table."""
MAX_LOAD, MAX_LOAD_ON_FULL_DISK = 0.5, 0.9
"""The share of slots in use above which the table grows, and above which it must grow."""
RETRY_SHARE = 32
"""After a full disk has prevented growth, it is tried again when another slot in this many is in use: each
attempt takes the time of copying the table."""
DIGESTS_IN_MEMORY = 10_000

_HEADER = Struct("=8sQQQ")
"""A magic number, the location of the table, the number of slots in use, and an unused number."""
_MAGIC = b"counter2"
_LOCATION, _USED = 1, 2
"""The index of each number among the 64-bit words of the file, which are read and written atomically."""
_OFFSET_BITS = 56
"""The lower bits of a location, which have the table's position; the others have log2 of its capacity."""
_DIGEST_BYTES = 16
_COUNTER = Struct("=IIQ")
"""The id, start and count of a counter."""
_SLOTS = [Struct(f"={_DIGEST_BYTES}s" + "IIQ" * counters) for counters in range(COUNTERS + 1)]
_SLOT = _SLOTS[COUNTERS]
"""The digest of the key, zeros in an unused slot; then its counters."""
_EMPTY = bytes(_DIGEST_BYTES)

Counters = dict[tuple[int, int], int]
"""The count of each counter by its id, which is not 0, and its start; those written last come first."""


class CounterTable:
    """The counters of a data directory.

    Args:
        path: The file; it is created if needed, and replaced by an empty one if it is damaged.
    """

    def __init__(self, path: Path) -> None:
        open_owner_only(path, "ab").close()
        self._file = path.open("r+b", buffering=0)
        self._retry_at = 0
        if not self._is_valid():
            self._file.truncate(0)
            with translate_disk_full():
                self._write_table(_HEADER.size, INITIAL_CAPACITY, {})
                self._write(0, _HEADER.pack(_MAGIC, _location(_HEADER.size, INITIAL_CAPACITY), 0, 0))
        # The positions that were found last, by digest, belong to one table: slots move only when it grows.
        self._location, self._extent = 0, (0, 0, dict[bytes, int]())
        self._remap()

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._words[_USED]

    @property
    def is_full(self) -> bool:
        """Whether a new key makes the table grow, which takes a millisecond or more."""
        _, capacity, _ = self._table()
        return self._words[_USED] >= MAX_LOAD * capacity

    def __contains__(self, key: str) -> bool:
        """Return whether a key has counters."""
        return bool(self._read_slot(key))

    def read(self, key: str) -> Counters:
        """Return the counters of a key."""
        return _to_counters(self._read_slot(key))

    def read_unlocked(self, key: str) -> Counters:
        """Return the counters of a key; the caller need not hold the lock."""
        values = self._read_slot(key)
        # Another process may just have written a part of the slot.
        while values != (again := self._read_slot(key)):
            values = again
        return _to_counters(values)

    def write(self, key: str, counters: Counters, *, in_use: range) -> None:
        """Write the first counters of a key; those behind them stay.

        Args:
            key: The key.
            counters: Its first counters; of more than `COUNTERS`, the first are kept.
            in_use: The starts in use: a table that grows leaves out keys that have none of them.

        Raises:
            InsufficientStorageError: The table must grow, and the disk is full.
        """
        digest = _digest(key)
        position = self._find(digest)
        if self._map[position : position + _DIGEST_BYTES] != digest:
            if self.is_full and self._words[_USED] >= self._retry_at:
                self._grow(in_use)
                position = self._find(digest)
            self._words[_USED] += 1
        values: list[bytes | int] = [digest]
        for (counter, start), count in islice(counters.items(), COUNTERS):
            values += (counter, start, count)
        _SLOTS[len(values) // 3].pack_into(self._map, position, *values)

    def close(self) -> None:
        """Unmap and close the file."""
        self._words.release()
        self._map.close()
        self._file.close()

    def _remap(self) -> None:
        # The previous map is not closed: another thread may be reading it.
        self._map = mmap.mmap(self._file.fileno(), 0)
        self._words = memoryview(self._map).cast("Q")

    def _table(self) -> tuple[int, int, dict[bytes, int]]:
        """Return the position and the number of the slots, and the positions that were found last."""
        location = self._words[_LOCATION]
        if location != self._location:
            # This process or another has made the table grow.
            self._remap()
            self._extent = location & ((1 << _OFFSET_BITS) - 1), 1 << (location >> _OFFSET_BITS), {}
            self._location = location
        return self._extent

    def _find(self, digest: bytes) -> int:
        """Return the position of a key's slot, or of the unused one where it belongs."""
        offset, capacity, positions = self._table()
        known = positions.get(digest)
        # Checked, as a table may be replaced twice by one in the same place.
        if known is not None and self._map[known : known + _DIGEST_BYTES] == digest:
            return known
        first = int.from_bytes(digest[:8], "little")
        for index in range(first, first + capacity):
            position = offset + index % capacity * _SLOT.size
            if self._map[position : position + _DIGEST_BYTES] in (digest, _EMPTY):
                break
        if len(positions) >= DIGESTS_IN_MEMORY:
            positions.clear()
        positions[digest] = position
        return position

    def _read_slot(self, key: str) -> bytes:
        """Return the part of a key's slot behind its digest; nothing for an unknown key."""
        digest = _digest(key)
        position = self._find(digest)
        slot = self._map[position : position + _SLOT.size]
        return slot[_DIGEST_BYTES:] if slot.startswith(digest) else b""

    def _grow(self, in_use: range) -> None:
        """Move the keys that are in use to another table, large enough for twice as many."""
        offset, capacity, _ = self._table()
        end = offset + capacity * _SLOT.size
        slots = {
            slot[0]: slot
            for slot in _SLOT.iter_unpack(self._map[offset:end])
            if slot[0] != _EMPTY and any(start in in_use for start in slot[2::3])
        }
        new_capacity = INITIAL_CAPACITY
        while new_capacity * MAX_LOAD < 2 * len(slots) + 1:
            new_capacity *= 2
        # The space of earlier tables is used again if it is large enough.
        new_offset = _HEADER.size if _HEADER.size + new_capacity * _SLOT.size <= offset else end
        try:
            with translate_disk_full():
                self._write_table(new_offset, new_capacity, slots)
        except InsufficientStorageError:
            if len(self) >= MAX_LOAD_ON_FULL_DISK * capacity:
                raise
            limit = int(MAX_LOAD_ON_FULL_DISK * capacity)
            self._retry_at = min(limit, len(self) + capacity // RETRY_SHARE)
            return
        self._retry_at = 0
        self._words[_USED] = len(slots)
        self._words[_LOCATION] = _location(new_offset, new_capacity)

    def _write_table(self, offset: int, capacity: int, slots: Mapping[bytes, tuple[int, ...]]) -> None:
        table = bytearray(capacity * _SLOT.size)
        for digest, slot in slots.items():
            index = int.from_bytes(digest[:8], "little") % capacity
            while table[index * _SLOT.size : index * _SLOT.size + _DIGEST_BYTES] != _EMPTY:
                index = (index + 1) % capacity
            _SLOT.pack_into(table, index * _SLOT.size, *slot)
        self._write(offset, table)

    def _write(self, offset: int, data: bytes | bytearray) -> None:
        self._file.seek(offset)
        unwritten = memoryview(data)
        while unwritten:
            unwritten = unwritten[self._file.write(unwritten) :]

    def _is_valid(self) -> bool:
        """Return whether the file has a whole table; not if it is new, or was cut off by a power failure."""
        size = self._file.seek(0, 2)
        self._file.seek(0)
        header = self._file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return False
        magic, location, used, _ = _HEADER.unpack(header)
        offset, capacity = location & ((1 << _OFFSET_BITS) - 1), 1 << (location >> _OFFSET_BITS)
        return bool(magic == _MAGIC and used < capacity and offset + capacity * _SLOT.size <= size)


def _to_counters(slot: bytes) -> Counters:
    counters = {}
    for counter, start, count in _COUNTER.iter_unpack(slot):
        # Counters come first, then zeros.
        if not counter:
            break
        counters[counter, start] = count
    return counters


def _location(offset: int, capacity: int) -> int:
    return (capacity.bit_length() - 1) << _OFFSET_BITS | offset


@lru_cache(DIGESTS_IN_MEMORY)
def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest()
