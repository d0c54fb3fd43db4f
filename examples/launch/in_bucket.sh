#!/bin/sh
# Copies a folder of a bucket, runs a command in the copy, and copies the output back to the bucket.
#
# Run here: no, there is no bucket here. tests/examples run it with a small program in place of
# gcloud. The options of `gcloud storage rsync` are from its documentation, from memory.
#
#   in_bucket.sh GS://BUCKET/FOLDER OUTPUT COMMAND...
#
# The script copies the whole folder to the current directory: the text, and the output of earlier
# runs. So the command continues an earlier run, also on a new machine. OUTPUT is a directory inside
# the current directory. It is copied back every COPY_EVERY seconds (300) and after the command has
# ended, with success or not. The file progress.json of a checkpoint is copied last. If the file is
# missing, the copy was interrupted, and the checkpoint is removed. The exit code is the command's.
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
        flock 9  # one copy at a time; files in the bucket are deleted after new ones are copied
        copy --exclude='.*/progress[.]json' && copy && copy --delete-unmatched-destination-objects
    } 9> .copying
}

gcloud storage rsync --recursive "$folder" .
for checkpoint in "$output"/checkpoints/step-*; do
    [ ! -d "$checkpoint" ] || [ -e "$checkpoint/progress.json" ] || rm -r "$checkpoint"
done
# A machine that is taken away sends signals to all programs. The run saves, then this script copies.
trap : HUP TERM
# The loop must end when this script ends. `cat` waits for the end of a pipe whose other end is open
# in this script only. A signal would not do: it could reach the loop while it still has the trap.
pipe=.running.$$
mkfifo "$pipe"
exec 8<> "$pipe" 7< "$pipe"
rm "$pipe"
while timeout "${COPY_EVERY:-300}" cat; [ $? -eq 124 ]; do
    copy_back || echo "$output could not be copied to $folder; trying again later." >&2
done <&7 7<&- 8>&- &
copying=$!
exec 7<&-
status=0
"$@" 8>&- || status=$?
exec 8>&-
copy_back
wait $copying || true  # SIGTERM may have ended it
exit $status
