#!/bin/bash
case $TOSCA_OPERATION in
*_target) echo "$TOSCA_NODE $TOSCA_OPERATION SOURCE=$SOURCE TARGET=$TARGET TARGETS=$TARGETS port=$port one=$one_port two=$two_port" ;;
*) echo "$TOSCA_NODE $TOSCA_OPERATION" ;;
esac >>"$log"
