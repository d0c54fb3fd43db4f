#!/bin/sh
# A slice of a TPU pod: several hosts, one process of ours that commands them all.
#
# Run here: no, there is no TPU here. The commands and versions of Google Cloud are from its
# documentation, from memory: see "Run TensorFlow code on TPU Pod slices" there.
#
#   examples/launch/tpu_pod.sh NAME ZONE GS://BUCKET/FOLDER
#
# With TensorFlow, a slice needs the image made for pods: on each of its hosts runs TensorFlow's
# server, and the program runs on the first host only. The version of that image must be the one
# of the TensorFlow that commands it.
set -eu

usage="usage: tpu_pod.sh NAME ZONE GS://BUCKET/FOLDER"
name=${1:?$usage} zone=${2:?$usage} folder=${3:?$usage}
image=${IMAGE:-tpu-vm-tf-2.20.0-pod-pjrt}

gcloud compute tpus tpu-vm create "$name" --zone "$zone" \
    --accelerator-type v5litepod-32 --version "$image"

gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --worker 0 --command "
    set -eu
    pip install --no-deps tensorflow-text==2.20.1 keras-bert-encoders
    pip install click 'keras>=3.12' 'ml-dtypes>=0.4' pyyaml safetensors tqdm
    gcloud storage cp --recursive '$folder/text' '$folder/vocab.txt' .
    export TPU_NAME='$name' TPU_LOAD_LIBRARY=0
    keras-bert pretrain bert_base_phase1 'corpus=text/*.txt' vocabulary=vocab.txt output=phase1 \
        strategy=tpu cluster='$name' precision=mixed_bfloat16 steps_per_loop=100
    gcloud storage cp --recursive phase1 '$folder'
"
