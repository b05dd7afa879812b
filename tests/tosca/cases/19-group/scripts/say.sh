#!/bin/bash
echo "$TOSCA_NODE ${title:-no title} ${text:-no text}" >>"$log"
