#!/bin/bash
echo "$TOSCA_NODE.$TOSCA_OPERATION ${own:-} ${other:-} ${text:-}" >>"$log"
