"""Signatures of delivery URLs and of webhook requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.image_url import sign_url, verify_signed_url
from imagehost_core.transform import FORMAT_NAMES, Fit, Transform
from imagehost_core.webhooks import new_webhook_secret, sign_webhook

SECRET = b"s" * 32
IMAGE = "4fTq0ZrXb81KcVnE"
NOW = datetime(2026, 11, 21, 7, 26, 3, 120_000, UTC)
EXPIRES = int(NOW.timestamp()) + 60
THUMB = Transform(width=200, format=Format.WEBP)

TRANSFORMS = st.builds(
    Transform,
    width=st.none() | st.integers(1, 8192),
    height=st.none() | st.integers(1, 8192),
    quality=st.none() | st.integers(1, 100),
    fit=st.sampled_from(Fit),
    format=st.none() | st.sampled_from([*FORMAT_NAMES.values(), Format.GIF]),
)


def is_valid(transform: Transform = THUMB, image: str = IMAGE, secret: bytes = SECRET, **query: str) -> bool:
    """Return whether a URL signed for THUMB until EXPIRES is valid after the given changes."""
    signed = {"exp": str(EXPIRES), "sig": sign_url(SECRET, IMAGE, THUMB, EXPIRES), **query}
    return verify_signed_url(secret, image, transform, signed, NOW)


@given(TRANSFORMS, st.integers(1, 10**9))
def test_a_signed_url_is_valid(transform: Transform, lifetime: int) -> None:
    expires = int(NOW.timestamp()) + lifetime
    query = {"exp": str(expires), "sig": sign_url(SECRET, IMAGE, transform, expires), "w": "5"}
    assert verify_signed_url(SECRET, IMAGE, transform, query, NOW)


@given(TRANSFORMS, TRANSFORMS)
@example(Transform(width=5, format=Format.GIF), Transform(width=5))
@example(Transform(format=Format.GIF), Transform())
def test_a_signature_covers_the_whole_transform(one: Transform, other: Transform) -> None:
    same = sign_url(SECRET, IMAGE, one, EXPIRES) == sign_url(SECRET, IMAGE, other, EXPIRES)
    assert same is (one == other)


@given(st.text(max_size=20), st.integers(0, 10**12), st.binary(min_size=1, max_size=40))
def test_a_signature_covers_the_image_the_expiry_and_the_secret(
    image: str, expires: int, secret: bytes
) -> None:
    assume((image, expires) != (IMAGE, EXPIRES))
    signature = sign_url(SECRET, IMAGE, THUMB, EXPIRES)
    assert sign_url(SECRET, image, THUMB, expires) != signature
    # HMAC pads a key with zeros (RFC 2104, section 2), so trailing zeros are insignificant.
    if secret.rstrip(b"\0") != SECRET:
        assert sign_url(secret, IMAGE, THUMB, EXPIRES) != signature


def test_a_signature_is_hmac_sha256_in_url_safe_base64() -> None:
    signature = sign_url(SECRET, IMAGE, THUMB, 1_700_000_000)
    payload = f"{IMAGE}\nw=200&fm=webp\nwebp\n1700000000".encode()
    derived = hmac.new(SECRET, b"image URLs", hashlib.sha256).digest()
    digest = hmac.new(derived, payload, hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == digest
    assert quote(signature, safe="") == signature


def test_a_signed_url_is_invalid_from_its_expiry_time_on() -> None:
    end = datetime.fromtimestamp(EXPIRES, UTC)
    query = {"exp": str(EXPIRES), "sig": sign_url(SECRET, IMAGE, THUMB, EXPIRES)}
    assert verify_signed_url(SECRET, IMAGE, THUMB, query, end - timedelta(microseconds=1))
    assert not verify_signed_url(SECRET, IMAGE, THUMB, query, end)
    assert not verify_signed_url(SECRET, IMAGE, THUMB, query, end + timedelta(days=1))


def test_a_signature_for_another_image_transform_or_secret_is_invalid() -> None:
    assert is_valid()
    assert not is_valid(image="4fTq0ZrXb81KcVnF")
    assert not is_valid(attrs.evolve(THUMB, width=201))
    assert not is_valid(secret=b"t" * 32)


@pytest.mark.parametrize(
    "expiry",
    [
        "",
        "0",
        str(EXPIRES + 1),
        f"0{EXPIRES}",
        f"+{EXPIRES}",
        f" {EXPIRES}",
        f"{EXPIRES}\n",
        f"{EXPIRES}.0",
        "９" * 10,
        "9" * 13,
        "9" * 5000,
        "never",
    ],
)
def test_another_expiry_is_invalid(expiry: str) -> None:
    assert not is_valid(exp=expiry)


@pytest.mark.parametrize("signature", ["", "x", "=", "é", "\ud800", "A" * 43, "A" * 10_000])
def test_another_signature_is_invalid(signature: str) -> None:
    assert not is_valid(sig=signature)


@given(st.data())
def test_a_signature_with_one_changed_character_is_invalid(data: st.DataObject) -> None:
    signature = sign_url(SECRET, IMAGE, THUMB, EXPIRES)
    position = data.draw(st.integers(0, len(signature) - 1))
    other = data.draw(st.characters().filter(lambda char: char != signature[position]))
    assert not is_valid(sig=signature[:position] + other + signature[position + 1 :])
    assert not is_valid(sig=signature[:position])
    assert not is_valid(sig=signature + other)


@pytest.mark.parametrize("query", [{}, {"exp": str(EXPIRES)}, {"sig": "x"}])
def test_a_url_without_exp_or_sig_is_invalid(query: dict[str, str]) -> None:
    assert not verify_signed_url(SECRET, IMAGE, THUMB, query, NOW)


def test_a_webhook_signature_matches_the_example_of_standard_webhooks() -> None:
    secret, event_id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signature = sign_webhook(secret, event_id, 1_614_265_330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(), st.integers(0, 10**10))
def test_a_webhook_signature_covers_id_timestamp_and_body(body: bytes, timestamp: int) -> None:
    secret = new_webhook_secret(bytes)
    signature = sign_webhook(secret, "msg_1", timestamp, body)
    assert sign_webhook(secret, "msg_2", timestamp, body) != signature
    assert sign_webhook(secret, "msg_1", timestamp + 1, body) != signature
    assert sign_webhook(secret, "msg_1", timestamp, body + b"\0") != signature
    assert sign_webhook("whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_1", timestamp, body) != signature


def test_a_new_webhook_secret_has_its_prefix_and_32_random_bytes() -> None:
    secret = new_webhook_secret(lambda count: bytes(range(count)))
    assert secret.startswith("whsec_")
    assert base64.b64decode(secret.removeprefix("whsec_"), validate=True) == bytes(range(32))
