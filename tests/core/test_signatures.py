"""Signatures hold for what they cover until they expire, and for nothing else."""

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
from imagehost_core.transform import FORMAT_NAMES, Fit, Transform, sign_url, verify_signed_url
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


def holds(transform: Transform = THUMB, image: str = IMAGE, secret: bytes = SECRET, **query: str) -> bool:
    """Whether an address signed for THUMB until EXPIRES, with these changes, is taken."""
    signed = {"exp": str(EXPIRES), "sig": sign_url(SECRET, IMAGE, THUMB, EXPIRES), **query}
    return verify_signed_url(secret, image, transform, signed, NOW)


@given(TRANSFORMS, st.integers(1, 10**9))
def test_what_was_signed_holds(transform: Transform, lifetime: int) -> None:
    expires = int(NOW.timestamp()) + lifetime
    query = {"exp": str(expires), "sig": sign_url(SECRET, IMAGE, transform, expires), "w": "5"}
    assert verify_signed_url(SECRET, IMAGE, transform, query, NOW)


@given(TRANSFORMS, TRANSFORMS)
@example(Transform(width=5, format=Format.GIF), Transform(width=5))
@example(Transform(format=Format.GIF), Transform())
def test_a_signature_covers_everything_that_is_asked_for(one: Transform, other: Transform) -> None:
    same = sign_url(SECRET, IMAGE, one, EXPIRES) == sign_url(SECRET, IMAGE, other, EXPIRES)
    assert same is (one == other)


@given(st.text(max_size=20), st.integers(0, 10**12), st.binary(min_size=1, max_size=40))
def test_a_signature_covers_the_image_the_expiry_and_the_secret(
    image: str, expires: int, secret: bytes
) -> None:
    assume((image, expires) != (IMAGE, EXPIRES))
    right = sign_url(SECRET, IMAGE, THUMB, EXPIRES)
    assert sign_url(SECRET, image, THUMB, expires) != right
    # HMAC pads a key with zeros (RFC 2104, section 2), so those at its end mean nothing.
    if secret.rstrip(b"\0") != SECRET:
        assert sign_url(secret, IMAGE, THUMB, EXPIRES) != right


def test_a_signature_is_hmac_sha256_in_url_safe_base64() -> None:
    signature = sign_url(SECRET, IMAGE, THUMB, 1_700_000_000)
    meant = f"{IMAGE}\nw=200&fm=webp\nwebp\n1700000000".encode()
    digest = hmac.new(SECRET, meant, hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == digest
    assert quote(signature, safe="") == signature


def test_a_signed_address_holds_until_it_expires_and_not_at_that_moment() -> None:
    end = datetime.fromtimestamp(EXPIRES, UTC)
    query = {"exp": str(EXPIRES), "sig": sign_url(SECRET, IMAGE, THUMB, EXPIRES)}
    assert verify_signed_url(SECRET, IMAGE, THUMB, query, end - timedelta(microseconds=1))
    assert not verify_signed_url(SECRET, IMAGE, THUMB, query, end)
    assert not verify_signed_url(SECRET, IMAGE, THUMB, query, end + timedelta(days=1))


def test_another_picture_size_or_secret_is_refused() -> None:
    assert holds()
    assert not holds(image="4fTq0ZrXb81KcVnF")
    assert not holds(attrs.evolve(THUMB, width=201))
    assert not holds(secret=b"t" * 32)


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
def test_another_expiry_is_refused(expiry: str) -> None:
    assert not holds(exp=expiry)


@pytest.mark.parametrize("signature", ["", "x", "=", "é", "\ud800", "A" * 43, "A" * 10_000])
def test_another_signature_is_refused(signature: str) -> None:
    assert not holds(sig=signature)


@given(st.data())
def test_a_signature_with_one_other_character_is_refused(data: st.DataObject) -> None:
    right = sign_url(SECRET, IMAGE, THUMB, EXPIRES)
    place = data.draw(st.integers(0, len(right) - 1))
    other = data.draw(st.characters().filter(lambda char: char != right[place]))
    assert not holds(sig=right[:place] + other + right[place + 1 :])
    assert not holds(sig=right[:place])
    assert not holds(sig=right + other)


@pytest.mark.parametrize("query", [{}, {"exp": str(EXPIRES)}, {"sig": "x"}])
def test_an_address_without_both_is_not_signed(query: dict[str, str]) -> None:
    assert not verify_signed_url(SECRET, IMAGE, THUMB, query, NOW)


def test_a_webhook_is_signed_as_in_the_published_example_of_standard_webhooks() -> None:
    secret, event_id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signature = sign_webhook(secret, event_id, 1_614_265_330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(), st.integers(0, 10**10))
def test_a_webhooks_signature_covers_its_id_its_time_and_every_byte(body: bytes, timestamp: int) -> None:
    secret = new_webhook_secret(bytes)
    right = sign_webhook(secret, "msg_1", timestamp, body)
    assert sign_webhook(secret, "msg_2", timestamp, body) != right
    assert sign_webhook(secret, "msg_1", timestamp + 1, body) != right
    assert sign_webhook(secret, "msg_1", timestamp, body + b"\0") != right
    assert sign_webhook("whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_1", timestamp, body) != right


def test_a_new_webhook_secret_is_marked_and_has_32_bytes_of_the_given_source() -> None:
    secret = new_webhook_secret(lambda count: bytes(range(count)))
    assert secret.startswith("whsec_")
    assert base64.b64decode(secret.removeprefix("whsec_"), validate=True) == bytes(range(32))
