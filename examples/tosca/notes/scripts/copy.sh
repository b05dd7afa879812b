#!/bin/bash
cp "$folder/notes" "$folder/$name"
