export PID=77
echo "start" >>"$log"
