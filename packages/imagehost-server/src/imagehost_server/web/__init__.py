"""Web pages for people: the gallery of public images, and what an account needs to use the host by hand.

The pages add no rule: what they show and change goes through the same functions of the core as the JSON API.
They are rendered here, work without scripts where that is possible, and load nothing from another origin but
images from `cdn_url`.
"""
