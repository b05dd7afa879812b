title_of() { sed -n 's:.*<title>\(.*\)</title>.*:\1:p' "$1"; }
