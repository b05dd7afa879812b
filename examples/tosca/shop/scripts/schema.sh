#!/bin/bash
export address="db://127.0.0.1/$name"
