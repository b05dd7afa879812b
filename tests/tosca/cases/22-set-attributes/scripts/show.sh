echo "$TOSCA_NODE $a $n $e" >> $log
