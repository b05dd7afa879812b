for v in ver flt ok l t raw multi who nothing no empty valued quote id nm dflt over; do printf "%s=%s\n" $v "${!v}" | tr '\n' '|' | sed 's/|$/\n/' >> "$log"; done
echo "n=$(printenv n)" >> $log; echo "dash=$(env | sed -n 's/^my-dash=//p')" >> $log
echo "$TOSCA_NODE $TOSCA_INTERFACE $TOSCA_OPERATION $(basename "$PWD") $(basename "$0") ${SOURCE:-none}" >> $log
export exported=$'two\nlines'
not_exported=5
printf filed > $heat_outputs_path.by_file
set -e
exit 0
