#!/bin/bash
echo "shop: $TOSCA_OPERATION" >>"$log"
