#!/bin/bash
echo "$TOSCA_NODE $TOSCA_OPERATION${port+ $port}" >>"$log"
exit "${code:-0}"
