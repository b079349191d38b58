from jinja2 import Environment
from markupsafe import Markup

from imagehost_client import Client, DisplayedImage, urls
from imagehost_client.testing import make_png


def picture(image: DisplayedImage, *widths: int, sizes: str = "100vw", **attributes: str) -> Markup:
    """Return a `<picture>` element; further arguments are attributes of `<img>`."""
    return Markup(urls.picture(image, widths or urls.DEFAULT_WIDTHS, sizes=sizes, attributes=attributes))


environment = Environment(autoescape=True)
environment.filters["picture"] = picture
environment.filters["image_url"] = urls.image_url
page = environment.from_string(
    '{{ cat | picture(320, 640, sizes="50vw", id="cat") }} {{ cat | image_url(w=64) }}'
)

with Client() as client:
    image = client.upload(make_png(1000, 500), description='"Cat" & co')
    html = page.render(cat=image)
    print('id="cat"' in html, 'alt="&quot;Cat&quot; &amp; co"' in html, html.endswith("?w=64"))
    client.images.delete(image)
# True True True
