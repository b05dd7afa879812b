echo "$TOSCA_NODE.$TOSCA_OPERATION w=$w h=$h p=$p s=$s" >> $log
export res=R
