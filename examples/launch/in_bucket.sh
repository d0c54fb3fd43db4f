#!/bin/sh
# Runs a command in a copy of a folder of a bucket, and keeps its output directory in that folder.
#
# Run here: no, there is no bucket here; with a stand-in for gcloud, by tests/examples. The options
# of `gcloud storage rsync` are from its documentation, from memory.
#
#   in_bucket.sh GS://BUCKET/FOLDER OUTPUT COMMAND...
#
# All of the folder is copied to the directory in which this is started: the text, and what earlier
# runs have left, so that the command goes on from there on a machine that is new. OUTPUT, in that
# directory, is copied back every COPY_EVERY seconds (300), and when the command has ended, well or
# not. The progress of a checkpoint is copied after all the rest: without it, the copy was cut off
# and is not taken for a checkpoint. This ends with the code of the command.
set -eu

usage="usage: in_bucket.sh GS://BUCKET/FOLDER OUTPUT COMMAND..."
folder=${1:?$usage} output=${2:?$usage}
shift 2
[ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }

copy() {
    gcloud storage rsync --recursive "$@" "$output" "$folder/$output"
}
copy_back() {
    [ -d "$output" ] || return 0
    {
        flock 9  # one at a time; and nothing is deleted there before all that is new has come
        copy --exclude='.*/progress[.]json' && copy && copy --delete-unmatched-destination-objects
    } 9> .copying
}

gcloud storage rsync --recursive "$folder" .
for checkpoint in "$output"/checkpoints/step-*; do
    [ ! -d "$checkpoint" ] || [ -e "$checkpoint/progress.json" ] || rm -r "$checkpoint"
done
trap : HUP TERM  # a machine that is taken away tells all programs: the run saves, then this copies
# The loop ends with this script, however it ends: `cat` waits for the end of a pipe whose other end
# is open here only. A signal could come before the loop has given up the trap, and be lost.
pipe=.running.$$
mkfifo "$pipe"
exec 8<> "$pipe" 7< "$pipe"
rm "$pipe"
while timeout "${COPY_EVERY:-300}" cat; [ $? -eq 124 ]; do
    copy_back || echo "$output is not copied to $folder; the next time perhaps." >&2
done <&7 7<&- 8>&- &
copying=$!
exec 7<&-
status=0
"$@" 8>&- || status=$?
exec 8>&-
copy_back
wait $copying || true  # SIGTERM has ended it, perhaps
exit $status
