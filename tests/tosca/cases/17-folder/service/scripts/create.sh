. "$(dirname "$0")/library.sh"
echo "create in folder $(library)" >>"$log"
