#!/bin/bash
echo "$TOSCA_NODE.$TOSCA_OPERATION ${own:-} ${other:-}" >>"$log"
[ "$TOSCA_OPERATION" != configure ] || [ ! -e "$log.fails" ]
