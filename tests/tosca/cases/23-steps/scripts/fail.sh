echo "$TOSCA_NODE.fail" >> $log
export seen=bad
exit 4
