echo "delete on $host" >>"$log"
