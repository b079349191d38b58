vcl 4.1;

import std;

# Varnish behind a TLS terminator on the same machine; the server trusts it as a proxy.
backend default {
    .host = "127.0.0.1";
    .port = "8000";
}

acl purgers {
    "127.0.0.1";
}

sub vcl_recv {
    if (req.method == "BAN") {
        # A request through the TLS terminator has its client's IP address before that of the terminator.
        if (client.ip !~ purgers || req.http.X-Forwarded-For ~ ",") {
            return (synth(405));
        }
        # Bans all variants of the image: they have the same tag.
        ban("obj.http.Cache-Tag == " + req.http.X-Cache-Tag);
        return (synth(204));
    }
    set req.http.X-Forwarded-Proto = "https";
    if (req.url ~ "^/img/") {
        # The response for fm=auto depends on whether Accept has these two types: one copy for each of the four cases.
        set req.http.X-Accept = req.http.Accept;
        set req.http.Accept = "*/*";
        if (req.http.X-Accept ~ "(?i)image/webp(?!\s*;\s*q=0(\.0*)?\s*(,|$))") {
            set req.http.Accept = "image/webp," + req.http.Accept;
        }
        if (req.http.X-Accept ~ "(?i)image/avif(?!\s*;\s*q=0(\.0*)?\s*(,|$))") {
            set req.http.Accept = "image/avif," + req.http.Accept;
        }
        unset req.http.X-Accept;
        # The server ignores several ranges, and one that ends before it begins. Varnish would respond with 503.
        if (req.http.Range !~ "^bytes=(\d{1,15}-\d{0,15}|-\d{1,15})$" ||
            std.integer(regsub(req.http.Range, "^bytes=(\d+)-\d+$", "\1"), 0) >
            std.integer(regsub(req.http.Range, "^bytes=\d+-(\d+)$", "\1"), 0)) {
            unset req.http.Range;
        }
        # The server responds to conditional and range requests, without image work: Varnish would respond in its own way.
        if (req.http.If-Match || req.http.If-Unmodified-Since || req.http.If-None-Match ||
            req.http.If-Modified-Since || req.http.Range) {
            return (pass);
        }
    }
}

sub vcl_backend_response {
    # Serve nothing after its end, as must-revalidate says: by default Varnish does for ten seconds.
    set beresp.grace = 0s;
}
