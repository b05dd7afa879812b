echo "$TOSCA_OPERATION url=$url${second+ second=$second}" | sed "s/^create/read/" >>"$log"
