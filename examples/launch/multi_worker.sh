#!/bin/sh
# One worker of several on machines that reach each other, or in several terminals of one machine.
#
# Run here: yes, two workers on loopback, by tests/examples/test_launch.py. Not on two machines.
#
#   on a:  examples/launch/multi_worker.sh 0 a:8888 b:8888 -- fast data.corpus="text/*.txt" ...
#   on b:  examples/launch/multi_worker.sh 1 a:8888 b:8888 -- fast data.corpus="text/*.txt" ...
#
# What follows -- is as for `keras-bert pretrain`, the same for all workers. The first worker alone
# writes; text, vocabulary and output lie on a file system that all of them see. If a worker is
# lost, the others stop with a message: start all of them again, and the run goes on.
#
# TensorFlow's server listens on all network interfaces and asks for no password: whoever reaches the
# port can read and write files as this user. Let a firewall admit the other workers alone.
set -eu

usage="usage: multi_worker.sh INDEX HOST:PORT... -- RECIPE [KEY=VALUE]..."
index=${1:?$usage}
shift
workers=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    workers="$workers${workers:+, }\"$1\""
    shift
done
[ $# -gt 1 ] && [ -n "$workers" ] || { echo "$usage" >&2; exit 2; }
shift

task="{\"type\": \"worker\", \"index\": $index}"
export TF_CONFIG="{\"cluster\": {\"worker\": [$workers]}, \"task\": $task}"
exec keras-bert pretrain "$@" devices.strategy=multi_worker
