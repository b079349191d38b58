from django import template
from django.conf import settings
from django.template import Context, Engine
from django.utils.safestring import SafeString, mark_safe

from imagehost_client import Client, DisplayedImage, urls
from imagehost_client.testing import make_png

# In a project, these lines are a module such as `gallery/templatetags/imagehost.py`.
register = template.Library()
register.filter("width", lambda image, width: urls.image_url(image, w=width))


@register.simple_tag
def picture(image: DisplayedImage, *widths: int, sizes: str = "100vw", **attributes: str) -> SafeString:
    """Return a `<picture>` element; further arguments are attributes of `<img>`."""
    return mark_safe(urls.picture(image, widths or urls.DEFAULT_WIDTHS, sizes=sizes, attributes=attributes))


settings.configure()
engine = Engine(libraries={"imagehost": __name__})
page = engine.from_string(
    '{% load imagehost %}{% picture cat 320 640 sizes="50vw" id="cat" %} {{ cat|width:64 }}'
)

with Client() as client:
    image = client.upload(make_png(1000, 500), description='"Cat" & co')
    html = page.render(Context({"cat": image}))
    print('id="cat"' in html, 'alt="&quot;Cat&quot; &amp; co"' in html, html.endswith("?w=64"))
    client.images.delete(image)
# True True True
