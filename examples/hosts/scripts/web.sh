#!/bin/bash
echo "the web tier connects to $address"
export serves="goods of postgresql://$address:$port/shop"
