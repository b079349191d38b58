"""The classes of JSON bodies.

Only JSON types and required members are checked here. Ranges are the core's rules; the annotations repeat
them for the OpenAPI document. Response records are the core's too (`imagehost_core.resources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.events import EVENT_TYPES
from imagehost_core.models import Role, Scope
from imagehost_core.services.accounts import MAX_LIMIT, account_change_errors
from imagehost_core.services.albums import MAX_IMAGES_PER_REQUEST
from imagehost_core.services.albums import MAX_NAME as MAX_ALBUM_NAME
from imagehost_core.services.images import MAX_IMAGES as MAX_BULK_IMAGES
from imagehost_core.services.keys import MAX_NAME as MAX_KEY_NAME
from imagehost_core.services.references import account_name_errors
from imagehost_core.transform import (
    DEFAULT_LIFETIME_SECONDS,
    FORMAT_NAMES,
    MAX_LIFETIME_SECONDS,
    MAX_QUALITY,
    MAX_SIDE,
    Fit,
)
from imagehost_core.uploads import MAX_DESCRIPTION, MAX_FILENAME_BYTES, STORED_FORMATS
from imagehost_core.webhooks import MAX_URL
from imagehost_server.api.body import JsonBody, set_fields
from imagehost_server.api.timestamps import parse_timestamp
from imagehost_server.auth.passwords import MAX_PASSWORD, MIN_PASSWORD, new_password_errors


def _meta(description: str, **schema: object) -> Meta:
    """Return the description and the JSON schema of a member, which do not affect its decoding."""
    return Meta(description=description, extra_json_schema={"extra": schema} if schema else None)


File = Annotated[str, Meta(extra_json_schema={"format": "binary"})]
_side: dict[str, object] = {"type": "integer", "minimum": 1, "maximum": MAX_SIDE}

AlbumName = Annotated[str, _meta("1–100 characters, after trimming.", minLength=1, maxLength=MAX_ALBUM_NAME)]
Description = Annotated[str, _meta("At most 2,000 characters.", maxLength=MAX_DESCRIPTION)]
IsPublic = Annotated[bool, _meta("Whether it is shown in the public gallery. 0 and 1 are accepted too.")]
AlbumReference = Annotated[
    int | str | UnsetType | None,
    _meta("The album's id; null removes the image from its album.", type=["integer", "null"], minimum=1),
]
Filename = Annotated[
    str,
    _meta("A new file name; its extension remains that of the stored format.", maxLength=MAX_FILENAME_BYTES),
]
ImageIds = Annotated[list[str], _meta("The ids of the images.", minItems=1, maxItems=MAX_IMAGES_PER_REQUEST)]
BulkIds = Annotated[
    list[str],
    _meta(
        "The ids of the images. One that is given twice counts once.", minItems=1, maxItems=MAX_BULK_IMAGES
    ),
]
Username = Annotated[str, _meta("The account's name.")]
Password = Annotated[
    str, _meta("The account's password.", format="password", minLength=MIN_PASSWORD, maxLength=MAX_PASSWORD)
]
NewPassword = Annotated[
    str, _meta("The new password.", format="password", minLength=MIN_PASSWORD, maxLength=MAX_PASSWORD)
]
AccountRole = Annotated[str, _meta("Operators manage all accounts.", enum=[role.value for role in Role])]
Limit = Annotated[
    int | None, _meta("Requests; null is the host's limit, 0 is unlimited.", minimum=0, maximum=MAX_LIMIT)
]
Quota = Annotated[
    int | None,
    _meta("Bytes of stored images; null is the host's quota, 0 is unlimited.", minimum=0, maximum=MAX_LIMIT),
]
KeyName = Annotated[str, _meta("A name for people.", maxLength=MAX_KEY_NAME)]
Scopes = Annotated[
    list[str],
    _meta("What the key may do.", items={"type": "string", "enum": [scope.value for scope in Scope]}),
]
ExpiresAt = Annotated[
    str | UnsetType | None,
    _meta("When the key expires, in RFC 3339 with a time zone; null = never.", format="date-time"),
]
WebhookUrl = Annotated[str, _meta("An https URL at a public IP address.", format="uri", maxLength=MAX_URL)]
EventTypes = Annotated[
    list[str],
    _meta(
        "The events to receive; an empty list means all.",
        items={"type": "string", "enum": sorted(EVENT_TYPES)},
    ),
]
Width = Annotated[int, _meta("Width in pixels.", **_side)]
Height = Annotated[int, _meta("Height in pixels.", **_side)]
Quality = Annotated[
    int,
    _meta("Compression quality; ignored for PNG and GIF.", type="integer", minimum=1, maximum=MAX_QUALITY),
]
FitMode = Annotated[
    str,
    _meta(
        "How the image fits width and height, if both are given; by default `cover`.",
        enum=[fit.value for fit in Fit],
    ),
]
OutputFormat = Annotated[str, _meta("Output format; `auto` negotiates by `Accept`.", enum=list(FORMAT_NAMES))]
Lifetime = Annotated[int, _meta("Seconds until the URL expires.", minimum=1, maximum=MAX_LIFETIME_SECONDS)]


class UploadForm(Struct, kw_only=True):
    """Either `files[]` (form 1, up to 20 files) or `image` (form 2, one file).

    An empty text field counts as absent; a boolean is `true`, `false`, `1` or `0`.
    """

    files: (
        Annotated[
            list[File],
            _meta("Form 1: 1 to 20 image files; the response has a list.", minItems=1, maxItems=20),
        ]
        | UnsetType
    ) = field(default=UNSET, name="files[]")
    image: Annotated[File, _meta("Form 2: one image file; the response is its record.")] | UnsetType = UNSET
    album_id: Annotated[int, _meta("The album to add the images to.", minimum=1)] | UnsetType = UNSET
    description: Annotated[str, _meta("A text about the images.", maxLength=MAX_DESCRIPTION)] | UnsetType = (
        UNSET
    )
    quality: Annotated[int, _meta("Compression quality.", minimum=1, maximum=MAX_QUALITY)] | UnsetType = UNSET
    format: Annotated[
        str,
        _meta(
            "In any case. Takes precedence over `convertToWebP`, unless it is `auto`.",
            enum=list(STORED_FORMATS),
        ),
    ] = "auto"
    remove_exif: (
        Annotated[bool, _meta("Remove EXIF, XMP and IPTC metadata. The default is a setting of the host.")]
        | UnsetType
    ) = UNSET
    convert_to_webp: Annotated[
        bool, _meta("Convert to WebP if that is smaller. No effect beside `format`.")
    ] = field(default=True, name="convertToWebP")
    auto_rename: Annotated[bool, _meta("Generate a random file name.")] = False
    is_public: Annotated[bool, _meta("Whether the gallery shows the images.")] = True


class NewAlbum(JsonBody, kw_only=True):
    """The body of `POST /albums`."""

    name: AlbumName
    description: Description = ""
    is_public: IsPublic = True


class ImageChanges(JsonBody, kw_only=True):
    """The body of `PATCH /images/{id}`; omitted members keep their values."""

    album_id: AlbumReference = UNSET
    description: Description | UnsetType = UNSET
    is_public: IsPublic | UnsetType = UNSET
    filename: Filename | UnsetType = UNSET


class BulkImageChanges(ImageChanges, kw_only=True):
    """The body of `PATCH /images`; omitted members keep their values."""

    image_ids: BulkIds


class BulkImageIds(JsonBody, kw_only=True):
    """The body of `DELETE /images` and `POST /images/delete`."""

    image_ids: BulkIds


class AlbumChanges(JsonBody, kw_only=True):
    """The body of `PATCH /albums/{id}`; omitted members keep their values."""

    name: AlbumName | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    is_public: IsPublic | UnsetType = UNSET


class AlbumMembers(JsonBody, kw_only=True):
    """The body of `PUT|DELETE /albums/{id}/images`."""

    image_ids: ImageIds


class SignIn(JsonBody, kw_only=True):
    """The body of `POST /session`."""

    username: Username
    password: Password

    def __repr__(self) -> str:
        # Without the password, which must not be logged.
        return f"{type(self).__name__}(username={self.username!r})"


class PasswordChange(JsonBody, kw_only=True):
    """The body of `POST /account/password`."""

    current_password: Annotated[str, _meta("The account's password.", format="password")]
    new_password: NewPassword

    def __repr__(self) -> str:
        # Without the passwords, which must not be logged.
        return f"{type(self).__name__}()"

    @staticmethod
    def value_errors(members: Mapping[str, object]) -> list[FieldError]:
        """Return the error of the new password's length."""
        return _password_errors("new_password", members)


class AccountLimits(JsonBody, kw_only=True):
    """The limits of an account that differ from the host's; omitted members keep their values."""

    api_per_minute: Limit | UnsetType = UNSET
    api_per_hour: Limit | UnsetType = UNSET
    api_per_day: Limit | UnsetType = UNSET
    uploads_per_minute: Limit | UnsetType = UNSET
    bulk_ids_per_minute: Limit | UnsetType = UNSET


class NewAccount(SignIn, kw_only=True):
    """The body of `POST /accounts`; only operators may send more than the name and the password."""

    role: AccountRole | UnsetType = UNSET
    limits: AccountLimits | UnsetType = UNSET
    quota_bytes: Quota | UnsetType = UNSET

    @staticmethod
    def value_errors(members: Mapping[str, object]) -> list[FieldError]:
        """Return the errors of the name, the password and the properties."""
        name = members.get("username")
        errors = account_name_errors(name) if isinstance(name, str) else ()
        return [*errors, *_password_errors("password", members), *_property_errors(members)]


class AccountChanges(JsonBody, kw_only=True):
    """The body of `PATCH /accounts/{id}`; omitted members keep their values."""

    role: AccountRole | UnsetType = UNSET
    limits: AccountLimits | UnsetType = UNSET
    quota_bytes: Quota | UnsetType = UNSET
    suspended: Annotated[bool, _meta("Whether the account is suspended.")] | UnsetType = UNSET

    @staticmethod
    def value_errors(members: Mapping[str, object]) -> list[FieldError]:
        """Return the errors of the properties."""
        return _property_errors(members)


class NewKey(JsonBody, kw_only=True):
    """The body of `POST /keys`; without `scopes` the key has all."""

    name: KeyName | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    expires_at: ExpiresAt = UNSET


class KeyChanges(JsonBody, kw_only=True):
    """The body of `PATCH /keys/{id}`; omitted members keep their values."""

    name: KeyName | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    expires_at: ExpiresAt = UNSET


class NewWebhook(JsonBody, kw_only=True):
    """The body of `POST /webhooks`; without `events` it receives all."""

    url: WebhookUrl
    events: EventTypes = field(default_factory=list)
    description: Description = ""


class WebhookChanges(JsonBody, kw_only=True):
    """The body of `PATCH /webhooks/{id}`; omitted members keep their values."""

    url: WebhookUrl | UnsetType = UNSET
    events: EventTypes | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    is_active: Annotated[bool, _meta("True enables a disabled webhook again.")] | UnsetType = UNSET


class TransformMembers(JsonBody, kw_only=True):
    """The transform parameters of a signed URL."""

    w: Width | UnsetType = UNSET
    h: Height | UnsetType = UNSET
    q: Quality | UnsetType = UNSET
    fit: FitMode | UnsetType = UNSET
    fm: OutputFormat | UnsetType = UNSET


class SignedUrlRequest(TransformMembers, kw_only=True):
    """The body of `POST /images/{id}/signed-url`: transform parameters, and the lifetime in seconds."""

    expires_in: Lifetime = DEFAULT_LIFETIME_SECONDS


class SignedUrlItem(TransformMembers, kw_only=True):
    """An image and its transform parameters, in the body of `POST /signed-urls`."""

    image_id: Annotated[str, _meta("The image's id.")]


class SignedUrlsRequest(JsonBody, kw_only=True):
    """The body of `POST /signed-urls`: images with transform parameters, and the lifetime of all URLs."""

    items: Annotated[list[SignedUrlItem], _meta("The URLs to sign.", minItems=1, maxItems=MAX_BULK_IMAGES)]
    expires_in: Lifetime = DEFAULT_LIFETIME_SECONDS


def parse_key_members(members: Mapping[str, object]) -> dict[str, object]:
    """Return the members of a key with `expires_at` as a datetime.

    Text that is no timestamp is left for the core, which rejects it together with the other members.
    """
    parsed = dict(members)
    expires_at = members.get("expires_at")
    if isinstance(expires_at, str):
        with suppress(ValidationError):
            parsed["expires_at"] = parse_timestamp("expires_at", expires_at)
    return parsed


def account_properties(members: Mapping[str, object]) -> dict[str, object]:
    """Return the properties of an account in a body by their names in the core, where limits have no group.

    Args:
        members: The members of a `NewAccount` or an `AccountChanges`.
    """
    properties = {name: members[name] for name in ("role", "suspended", "quota_bytes") if name in members}
    limits = members.get("limits", {})
    if isinstance(limits, AccountLimits):
        limits = set_fields(limits)
    assert isinstance(limits, dict)
    return properties | {name: limits[name] for name in AccountLimits.__struct_fields__ if name in limits}


def _property_errors(members: Mapping[str, object]) -> list[FieldError]:
    return list(account_change_errors(account_properties(members)))


def _password_errors(name: str, members: Mapping[str, object]) -> list[FieldError]:
    password = members.get(name)
    return list(new_password_errors(password, name)) if isinstance(password, str) else []
