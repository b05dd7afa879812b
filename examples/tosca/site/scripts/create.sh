#!/bin/bash
mkdir -p "$folder"
