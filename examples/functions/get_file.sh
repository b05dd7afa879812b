#!/bin/sh
printf 'Hello from a file, %s!' "$name" >"$heat_outputs_path.greeting"
