#!/bin/sh
# Starts one worker of several, on machines that reach each other or in terminals of one machine.
#
# Run here: yes, two workers on loopback, by tests/examples/test_launch.py. Not on two machines.
#
#   on a:  examples/launch/multi_worker.sh 0 a:8888 b:8888 -- fast data.corpus="text/*.txt" ...
#   on b:  examples/launch/multi_worker.sh 1 a:8888 b:8888 -- fast data.corpus="text/*.txt" ...
#
# The arguments after -- are those of `keras-bert pretrain`, the same for all workers. Text,
# vocabulary and output must be on a file system that all workers share. Only the first worker
# writes. If a worker is lost, the others stop with a message. Start all of them again to continue
# the run.
#
# TensorFlow's server listens on all network interfaces and asks for no password. Anybody who
# reaches the port can read and write files as this user. Let a firewall admit the other workers
# only.
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
