def reduce(
    pixels: object,
    size: tuple[int, int],
    target: tuple[int, int],
    box: tuple[float, float, float, float],
    cell: tuple[int, int],
    alpha: bool,
    to_light: bytes,
    from_light: bytes,
    /,
) -> bytes: ...
