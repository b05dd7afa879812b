#!/bin/bash
echo "$TOSCA_OPERATION $db_port $db_host $_1st $both $two_names" >>"$log"
