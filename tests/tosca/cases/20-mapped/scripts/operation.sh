#!/bin/bash
echo "$TOSCA_NODE.$TOSCA_OPERATION${word:+ $word}${token:+ $token}" >>"$log"
[ "$fails" != "$TOSCA_NODE.$TOSCA_OPERATION" ] || exit 3
export token="of-$TOSCA_NODE"
