#!/bin/sh
echo "$foo" >>"$folder/order"
echo "$foo and $bar"
echo "to the side" >&2
printf '%s/%s' "$foo" "$bar" >"$heat_outputs_path.result"
