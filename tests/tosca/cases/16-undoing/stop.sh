. ./library.sh
echo "stop $(cat of.txt) $pid $(library)" >>"$log"
