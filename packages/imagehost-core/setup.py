"""The build of the C extensions, without which the package works, but slower; pyproject.toml has the rest."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

log = logging.getLogger("imagehost_core.build")


class BuildAllOrNone(build_ext):
    """Build all extensions; where one cannot be built, none, and the wheel is tagged `py3-none-any`."""

    def build_extensions(self) -> None:
        """Build the extensions, or remove those that were built."""
        try:
            super().build_extensions()
        except (CCompilerError, ExecError, PlatformError) as error:
            log.warning(
                "imagehost-core: no C extensions (%s): resizing will be about 4x slower, and chroma "
                "subsampling left to the encoders",
                str(error)[:80],
            )
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []
            self.distribution.ext_modules = []
            self.get_finalized_command("bdist_wheel").root_is_pure = True


with TemporaryDirectory() as directory:  # pip and uv build in the clone, which is to stay as it is
    setup(cmdclass={"build_ext": BuildAllOrNone}, options={"build": {"build_base": directory}})
