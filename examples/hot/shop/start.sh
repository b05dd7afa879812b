#!/bin/sh -e
# Start the web tier anew, and wait until it answers.
folder=$(dirname "$database")
[ ! -e "$folder/web.pid" ] || kill "$(cat "$folder/web.pid")" 2>/dev/null || true
printf '%s\n' "$program" > "$folder/web.py"
setsid python3 "$folder/web.py" "$database" "$port" > "$folder/web.log" 2>&1 &
echo $! > "$folder/web.pid"
for try in $(seq 50); do
  if python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/')" 2>/dev/null; then
    printf 'http://127.0.0.1:%s/' "$port" > "$heat_outputs_path.address"
    exit 0
  fi
  sleep 0.2
done
echo "nobody answers at port $port" >&2
exit 1
