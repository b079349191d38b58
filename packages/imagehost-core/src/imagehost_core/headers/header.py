"""What a scan finds: the facts of one picture, as its headers tell them."""

from __future__ import annotations

from enum import StrEnum

from attrs import Factory, define, field, frozen

from imagehost_core.formats import Format


class MetadataKind(StrEnum):
    """A kind of metadata that a picture can carry."""

    EXIF = "exif"
    ICC = "icc"
    XMP = "xmp"
    IPTC = "iptc"


@frozen(kw_only=True)
class ImageHeader:
    """One picture, as its headers tell it.

    Attributes:
        format: What the content is.
        width: Pixels across, as stored, before `orientation` is applied.
        height: Pixels down, as stored.
        frames: How many pictures a decoder finds: 1 unless animated. The default image of an APNG that is
            no part of its animation counts too. The further images of a JPEG (MPO) do not: they are after
            the end.
        orientation: The EXIF tag 0x0112, 1 to 8; 1 where there is none that makes sense.
        has_alpha: Whether the picture may be transparent.
        end: Offset in bytes just after the picture; what comes after it is no part of it.
        scans: Scans of a JPEG, else 0.
        extent: Pixels across and down that all frames together span. It is the size but for a GIF whose
            later frames leave its canvas: decoders then grow the canvas to this.
        metadata: Which kinds of metadata are present.
        metadata_bytes: Bytes of all that is neither pixels nor needed to read them: metadata, colour
            profiles, comments and unknown parts, as stored (compressed where they are).
    """

    format: Format
    width: int
    height: int
    frames: int = 1
    orientation: int = 1
    has_alpha: bool = False
    end_offset: int
    scans: int = 0
    canvas_extent: tuple[int, int] = Factory(lambda self: (self.width, self.height), takes_self=True)
    metadata: frozenset[MetadataKind] = frozenset()
    metadata_bytes: int = 0

    @property
    def has_metadata(self) -> bool:
        """Whether there is EXIF, XMP or IPTC: what `remove_exif` takes away (contract 4; ICC stays)."""
        return bool(self.metadata - {MetadataKind.ICC})

    @property
    def frame_pixels(self) -> int:
        """The pixels of one frame as a decoder holds it, whatever part of the canvas the frame paints."""
        return self.canvas_extent[0] * self.canvas_extent[1]

    @property
    def total_pixels(self) -> int:
        """The pixels of all frames."""
        return self.frame_pixels * self.frames


@define
class MetadataCounter:
    """The metadata that was met so far in a scan.

    Attributes:
        kinds: What was met.
        size: Its bytes.
        exif: Where the first EXIF is: the offsets of its first byte and of the byte after it.
    """

    kinds: set[MetadataKind] = field(factory=set)
    size: int = 0
    exif: tuple[int, int] | None = None

    def add(self, kind: MetadataKind | None, start: int, end: int) -> None:
        """Count the bytes from `start` to before `end`, which are of the given kind or of none we know."""
        self.size += end - start
        if kind is not None:
            self.kinds.add(kind)
        if kind is MetadataKind.EXIF and self.exif is None:
            self.exif = start, end
