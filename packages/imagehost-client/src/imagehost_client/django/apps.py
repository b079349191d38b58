"""The application `imagehost_client.django`, which takes the sizes of stored images from their names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.core.files.base import File
from django.db.models import ImageField, Model
from django.db.models.fields.files import ImageFieldFile
from django.db.models.signals import class_prepared

from imagehost_client.django.storage import ImageHostStorage

if TYPE_CHECKING:
    Mixed = ImageFieldFile
else:
    Mixed = object


class StoredDimensions(Mixed):
    """The width and height of a stored image by its record: Django downloads the file for them.

    Those of the uploaded file may differ: the host applies the orientation of EXIF.
    """

    def save(self, name: str, content: File[Any], save: bool = True) -> None:
        """Store a file, and fill the fields of width and height."""
        super().save(name, content, save=False)
        self.field.update_dimension_fields(self.instance, force=True)
        if save:
            self.instance.save()

    @property
    def width(self) -> int:
        """The width in pixels."""
        return self._stored_size()[0] or super().width

    @property
    def height(self) -> int:
        """The height in pixels."""
        return self._stored_size()[1] or super().height

    def __reduce__(self) -> tuple[Any, ...]:
        # Django's caches pickle models, and the class of this file has no name of its own.
        return _new_file, (type(self).__bases__[1],), self.__getstate__()

    def _stored_size(self) -> tuple[int, int]:
        storage = self.storage
        is_stored = getattr(self, "_committed", False)  # not the file of a form
        if not isinstance(storage, ImageHostStorage) or not is_stored or not self.name:
            return 0, 0
        image = storage.displayed(self.name)
        return image.width, image.height


@cache
def with_stored_dimensions(kind: type[ImageFieldFile]) -> type[ImageFieldFile]:
    """Return a class of files with `StoredDimensions`, else as `kind`."""
    return type(kind.__name__, (StoredDimensions, kind), {"__module__": kind.__module__})


def _new_file(kind: type[ImageFieldFile]) -> ImageFieldFile:
    mixed = with_stored_dimensions(kind)  # type: ignore[arg-type]  # classes are hashable
    return mixed.__new__(mixed)


def use_stored_dimensions(sender: type[Model], **_: object) -> None:
    """Let the files of a model's image fields be of a class with `StoredDimensions`."""
    for field in sender._meta.local_fields:  # noqa: SLF001 - public in Django
        if isinstance(field, ImageField) and not issubclass(field.attr_class, StoredDimensions):
            kind = field.attr_class
            field.attr_class = with_stored_dimensions(kind)  # type: ignore[arg-type]  # as above


class ImageHostConfig(AppConfig):
    """The application."""

    name = "imagehost_client.django"
    label = "imagehost"

    def ready(self) -> None:
        """Prepare the models of the project, and those that are made later."""
        for model in apps.get_models(include_auto_created=True):
            use_stored_dimensions(model)
        class_prepared.connect(use_stored_dimensions)
