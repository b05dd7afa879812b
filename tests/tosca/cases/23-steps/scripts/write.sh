echo "$TOSCA_NODE.$TOSCA_OPERATION $w" >> $log
export seen=$w
