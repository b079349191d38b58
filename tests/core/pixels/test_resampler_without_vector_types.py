"""The native resampler as compilers without vector types build it, such as MSVC."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.core.pixels.conftest import ImageFactory

from imagehost_core.pixels.linear_light import Box
from imagehost_core.transform import Size


@pytest.fixture(scope="module")
def portable(workspace: Path, native_resampler: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The C extension, compiled without vector types and otherwise as in the wheels."""
    core = workspace / "packages" / "imagehost-core"
    project = tomllib.loads((core / "pyproject.toml").read_text(encoding="utf-8"))
    (extension,) = (
        extension
        for extension in project["tool"]["setuptools"]["ext-modules"]
        if extension["name"].endswith("._resample")
    )
    (source,) = extension["sources"]
    target = tmp_path_factory.mktemp("portable") / "_resample.so"
    compiler = next(path for path in map(shutil.which, ("cc", "gcc", "clang")) if path is not None)
    flags = ("-shared", "-fPIC", "-DWITHOUT_VECTOR_TYPES", "-Wall", "-Werror", "-Wno-missing-braces")
    command = [compiler, *extension["extra-compile-args"], *flags, f"-I{sysconfig.get_path('include')}"]
    subprocess.run([*command, core / source, "-o", target, "-lm"], check=True)
    spec = importlib.util.spec_from_file_location("_resample", target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("size", [Size(100, 75), Size(37, 11), Size(1, 1), Size(5, 240)])
def test_the_result_is_the_same_without_vector_types(
    portable: Any,
    native_resampler: Any,
    factory: ImageFactory,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    size: Size,
) -> None:
    image = factory.noise(320, 240)
    if mode == "RGBA":
        image.putalpha(factory.noise(320, 240, seed=1).convert("L"))
    box = Box(3.25, 0.0, 317.5, 240.0)
    expected = native_resampler.downscale(image, size, box)
    monkeypatch.setattr(native_resampler, "_resample", portable)
    assert native_resampler.downscale(image, size, box).tobytes() == expected.tobytes()
