#!/bin/sh -e
# Stop the web tier; on DELETE, remove it.
folder=$(dirname "$database")
[ ! -e "$folder/web.pid" ] || kill "$(cat "$folder/web.pid")" 2>/dev/null || true
rm -f "$folder/web.pid"
[ "$deploy_action" != DELETE ] || rm -f "$folder/web.py" "$folder/web.log"
