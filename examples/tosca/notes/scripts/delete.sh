#!/bin/bash
rm -r "$folder"
