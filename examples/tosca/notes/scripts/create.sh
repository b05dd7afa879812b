#!/bin/bash
set -e
mkdir -p "$folder"
echo "buy milk" >"$folder/notes"
export first="buy milk"
