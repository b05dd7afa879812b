#!/bin/bash
echo "$TOSCA_INTERFACE.$TOSCA_OPERATION" >>"$log"
export told="$TOSCA_INTERFACE ${TARGET:-}"
