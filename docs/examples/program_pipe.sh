#!/bin/sh
# Publish a chart from a pipe, and get a thumbnail of it.
set -eu

printf '%s' "$CHART" | base64 -d | imagehost-client upload - --name chart.png --keep-format --markdown > report.md
cut -d ']' -f 1 report.md

# In a pipe, lists are columns with tabs between them; ids and URLs are both accepted.
imagehost-client ls | cut -f 1 > ids.txt

# The format of the thumbnail is that of the file's name.
xargs imagehost-client get --width 100 --output chart.webp --quiet < ids.txt
ls chart.webp

imagehost-client rm $(cat ids.txt) --yes > deleted.txt
imagehost-client show $(cat ids.txt) 2> errors.txt || echo "status $?"
# ![chart.png
# chart.webp
# status 4
