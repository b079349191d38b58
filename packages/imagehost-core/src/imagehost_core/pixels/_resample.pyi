def downscale(
    pixels: object,
    size: tuple[int, int],
    target: object,
    target_size: tuple[int, int],
    box: tuple[float, float, float, float],
    box_factor: tuple[int, int],
    has_alpha: bool,
    srgb_to_linear: bytes,
    linear_to_srgb: bytes,
    /,
) -> None: ...
