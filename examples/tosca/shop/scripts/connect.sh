#!/bin/bash
echo "shop: connected to $address" >>"$log"
