library() { echo "with its library"; }
