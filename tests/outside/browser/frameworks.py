"""The JavaScript frameworks with a file in docs/integrations/frameworks: their packages and builds."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Framework:
    """A framework whose pages show images of the host.

    Attributes:
        packages: The npm packages and their versions, the one of the table first.
        build: The program of a package, or a script of the project, and its arguments.
        output: The folder with the page that is built.
    """

    packages: Mapping[str, str]
    build: tuple[str, ...]
    output: str


THUMBHASH = {"thumbhash": "0.1.1"}
REACT = {"react": "19.3.1", "react-dom": "19.3.1"}
ANGULAR = ("common", "compiler", "core", "platform-browser", "platform-server")

FRAMEWORKS: Mapping[str, Framework] = {
    "angular": Framework(
        {**{f"@angular/{name}": "22.2.0" for name in ANGULAR}, "rxjs": "7.8.2", **THUMBHASH},
        ("page.mjs",),
        ".",
    ),
    "astro": Framework({"astro": "7.3.5", **THUMBHASH}, ("node_modules/.bin/astro", "build"), "dist"),
    "eleventy": Framework(
        {"@11ty/eleventy": "3.1.8", **THUMBHASH}, ("node_modules/.bin/eleventy", "--quiet"), "_site"
    ),
    "next": Framework({"next": "16.4.6", **REACT, **THUMBHASH}, ("node_modules/.bin/next", "build"), "out"),
    "nuxt": Framework(
        {"@nuxt/image": "2.1.0", "nuxt": "4.5.2", **THUMBHASH},
        ("node_modules/.bin/nuxt", "generate"),
        ".output/public",
    ),
    "sveltekit": Framework(
        {
            "@sveltejs/kit": "3.2.0",
            "@sveltejs/adapter-static": "4.0.1",
            "@sveltejs/vite-plugin-svelte": "7.3.1",
            "svelte": "5.57.3",
            "vite": "8.4.0",
            **THUMBHASH,
        },
        ("node_modules/.bin/vite", "build"),
        "build",
    ),
    "unpic": Framework({"@unpic/react": "1.0.2", **REACT, **THUMBHASH}, ("page.mjs",), "."),
}
"""The frameworks, by the name of their folder in docs/integrations/frameworks."""
