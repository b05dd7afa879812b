#!/bin/bash
echo "the database listens on port $port"
export ready="$port"
