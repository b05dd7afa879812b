#!/bin/bash
echo "link $the_state $other_its_port" >>"$log"
