"""The rules of the state machine that change hosts: on one of them, or in a process that is killed."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.faults.host_operations import CONTENTS
from tests.faults.modelled_hosts import DESCRIPTIONS, FILENAMES, OWNERS, ModelledHosts

SCOPES = ("images:read", "albums:write", "account:read")
QUOTAS = (None, 0, 500, 3_000)
WHERE = st.sampled_from(("first", "second", "first", "second", "killed beside", "killed alone"))
STEP = st.integers(1, 60)


class ChangeRules(ModelledHosts):
    """The changes of images, albums, accounts, keys and webhooks."""

    @rule(data=st.data(), where=WHERE, step=STEP, content=st.integers(0, len(CONTENTS) - 1))
    def upload(self, data: st.DataObject, where: str, step: int, content: int) -> None:
        """Upload an image."""
        owner = self.owner(data)
        optional = {
            "is_public": st.booleans(),
            "description": st.sampled_from(DESCRIPTIONS),
            "album_id": st.sampled_from([None, *sorted(self.model.albums)]),
            "convert_to_webp": st.booleans(),
            "format": st.sampled_from(("png", "jpeg", "webp")),
        }
        options = data.draw(st.fixed_dictionaries({}, optional=optional), "options")
        filename = data.draw(st.sampled_from(FILENAMES), "filename")
        key = data.draw(st.sampled_from((None, None, f"key {len(self.uploads)}")), "key")
        arguments = {"owner": owner, "content": content, "filename": filename, "key": key, "options": options}
        if key is not None:
            self.uploads[key] = arguments
        self.perform("upload", arguments, where, step)

    @precondition(lambda self: self.uploads)
    @rule(data=st.data(), where=WHERE, step=STEP)
    def repeat_upload(self, data: st.DataObject, where: str, step: int) -> None:
        """Repeat an upload under its idempotency key, unless its image was deleted."""
        arguments = self.uploads[data.draw(st.sampled_from(sorted(self.uploads)), "key")]
        owner = arguments["owner"]
        if self.model.accounts[owner].is_suspended:
            return
        previous = self.model.previous_upload(owner, arguments["key"])
        if previous is None or previous in self.model.images:
            self.perform("upload", arguments, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP)
    def update(self, data: st.DataObject, where: str, step: int) -> None:
        """Change an image."""
        arguments = {"owner": self.owner(data), "image": self.image(data), "changes": self.changes(data)}
        self.perform("update", arguments, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP)
    def update_many(self, data: st.DataObject, where: str, step: int) -> None:
        """Change several images."""
        arguments = {
            "owner": self.owner(data),
            "images": self.some_images(data),
            "changes": self.changes(data),
        }
        self.perform("update_many", arguments, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP)
    def delete(self, data: st.DataObject, where: str, step: int) -> None:
        """Delete an image."""
        self.perform("delete", {"owner": self.owner(data), "image": self.image(data)}, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP)
    def delete_many(self, data: st.DataObject, where: str, step: int) -> None:
        """Delete several images."""
        self.perform(
            "delete_many", {"owner": self.owner(data), "images": self.some_images(data)}, where, step
        )

    @rule(data=st.data(), where=WHERE, step=STEP, is_public=st.booleans())
    def create_album(self, data: st.DataObject, where: str, step: int, is_public: bool) -> None:
        """Create an album."""
        name = data.draw(st.sampled_from(("Cats", " Dogs ")), "name")
        arguments = {"owner": self.owner(data), "name": name, "is_public": is_public}
        self.perform("create_album", arguments, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP)
    def update_album(self, data: st.DataObject, where: str, step: int) -> None:
        """Change an album."""
        flags = {"is_public": st.booleans(), "images_public": st.booleans()}
        values = {"name": st.sampled_from(("Cats", "Birds")), **flags}
        changes = data.draw(st.fixed_dictionaries({}, optional=values), "changes")
        arguments = {"owner": self.owner(data), "album": self.album(data), "changes": changes}
        self.perform("update_album", arguments, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP, delete_images=st.booleans(), images_public=st.booleans())
    def delete_album(
        self, data: st.DataObject, where: str, step: int, delete_images: bool, images_public: bool
    ) -> None:
        """Delete an album, with its images or without."""
        flags = {"delete_images": delete_images, "images_public": images_public}
        arguments = {"owner": self.owner(data), "album": self.album(data), **flags}
        self.perform("delete_album", arguments, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP, name=st.sampled_from(("add_images", "remove_images")))
    def change_members(self, data: st.DataObject, where: str, step: int, name: str) -> None:
        """Add images to an album, or remove them."""
        arguments = {"owner": self.owner(data), "album": self.album(data), "images": self.some_images(data)}
        self.perform(name, arguments, where, step)

    @rule(where=WHERE, step=STEP, account=st.sampled_from(OWNERS), quota=st.sampled_from(QUOTAS))
    def set_quota(self, where: str, step: int, account: str, quota: int | None) -> None:
        """Change the quota of an account."""
        self.perform("update_account", {"account": account, "changes": {"quota_bytes": quota}}, where, step)

    @rule(where=WHERE, step=STEP, account=st.sampled_from(OWNERS), suspended=st.booleans())
    def suspend(self, where: str, step: int, account: str, suspended: bool) -> None:
        """Suspend an account, or end its suspension; the last operator cannot be suspended."""
        self.perform("update_account", {"account": account, "changes": {"suspended": suspended}}, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP, scopes=st.sets(st.sampled_from(SCOPES), min_size=1))
    def create_key(self, data: st.DataObject, where: str, step: int, scopes: set[str]) -> None:
        """Create a key."""
        self.perform("create_key", {"owner": self.owner(data), "scopes": sorted(scopes)}, where, step)

    @precondition(lambda self: self.model.keys)
    @rule(data=st.data(), where=WHERE, step=STEP)
    def revoke_key(self, data: st.DataObject, where: str, step: int) -> None:
        """Revoke a key."""
        key = data.draw(st.sampled_from(sorted(self.model.keys)), "key")
        self.perform("revoke_key", {"owner": self.owner(data), "key": key}, where, step)

    @rule(data=st.data(), where=WHERE, step=STEP)
    def create_webhook(self, data: st.DataObject, where: str, step: int) -> None:
        """Create a webhook for some types of events, or all."""
        if len(self.model.webhooks) < 3:
            kinds = st.sampled_from(("image.uploaded", "image.deleted", "album.updated"))
            events = data.draw(st.lists(kinds, max_size=2, unique=True), "events")
            self.perform("create_webhook", {"owner": self.owner(data), "events": events}, where, step)

    @precondition(lambda self: self.model.webhooks)
    @rule(data=st.data(), where=WHERE, step=STEP)
    def delete_webhook(self, data: st.DataObject, where: str, step: int) -> None:
        """Delete a webhook."""
        webhook = data.draw(st.sampled_from(sorted(self.model.webhooks)), "webhook")
        self.perform("delete_webhook", {"owner": self.owner(data), "webhook": webhook}, where, step)

    @rule(amount=st.sampled_from((timedelta(microseconds=1), timedelta(seconds=1), timedelta(hours=1))))
    def advance(self, amount: timedelta) -> None:
        """Let time pass."""
        self.clock.now += amount
        self.model.now = self.clock.now
