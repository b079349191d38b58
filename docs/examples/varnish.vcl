vcl 4.1;

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
        if (client.ip !~ purgers) {
            return (synth(405));
        }
        # Bans all variants of the image: they have the same tag.
        ban("obj.http.Cache-Tag == " + req.http.X-Cache-Tag);
        return (synth(204));
    }
    set req.http.X-Forwarded-Proto = "https";
}
