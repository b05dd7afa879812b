#!/bin/bash
. "$(dirname "$0")/title.sh"
cp "$page" "$folder/index.html"
export title="$(title_of "$folder/index.html")"
