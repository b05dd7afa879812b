library() { echo "with the library"; }
