"""The speed of the AVIF encoder is a setting, and part of the cache key of AVIF variants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from imagehost_core import ImageHost
from imagehost_core.settings import DeliverySettings, Settings, SettingsError, settings_from_environment
from imagehost_core.testing import make_image


def test_another_avif_speed_renders_avif_variants_anew_and_no_others(
    opened: Callable[..., ImageHost],
) -> None:
    speeds = [opened(settings=Settings(delivery=DeliverySettings(avif_speed=speed))) for speed in (9, 6)]
    image = speeds[0].upload(make_image(200, 160), owner="admin")
    avif, webp = (
        [host.render(image.id, f"w=100&fm={fmt}") for host in speeds for _ in range(2)]
        for fmt in ("avif", "webp")
    )
    assert avif[0].data == avif[1].data != avif[2].data == avif[3].data
    assert len({variant.data for variant in webp}) == 1


@pytest.mark.parametrize("speed", [-1, 11, "fast"])
def test_an_avif_speed_is_an_integer_from_0_to_10(speed: object) -> None:
    with pytest.raises(SettingsError, match="IMAGEHOST_DELIVERY_AVIF_SPEED"):
        settings_from_environment({"IMAGEHOST_DELIVERY_AVIF_SPEED": str(speed)})


def test_the_default_avif_speed_is_nine() -> None:
    assert settings_from_environment({"IMAGEHOST_DELIVERY_AVIF_SPEED": "0"}).delivery.avif_speed == 0
    assert DeliverySettings().avif_speed == 9
