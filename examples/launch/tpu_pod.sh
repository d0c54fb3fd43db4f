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
# of the TensorFlow that commands it. The folder, and what to do if the slice has been taken away,
# are as in tpu_vm.sh.
#
# TensorFlow's servers listen on all network interfaces and ask for no password. Let the firewall of
# the network admit the hosts of the slice alone, and ssh.
set -eu

usage="usage: tpu_pod.sh NAME ZONE GS://BUCKET/FOLDER"
name=${1:?$usage} zone=${2:?$usage} folder=${3:?$usage}
image=${IMAGE:-tpu-vm-tf-2.20.0-pod-pjrt}

gcloud compute tpus tpu-vm create "$name" --zone "$zone" \
    --accelerator-type v5litepod-32 --version "$image"
# The package is not on PyPI yet; `make package` builds the wheel.
gcloud compute tpus tpu-vm scp "$(dirname "$0")/in_bucket.sh" "$(dirname "$0")"/../../build/package/*.whl \
    "$name:" --zone "$zone" --worker 0

gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --worker 0 --command "
    set -eu
    pip install --no-deps tensorflow-text==2.20.1 ./keras_bert_encoders-*.whl
    pip install click 'keras>=3.12' 'ml-dtypes>=0.4' 'pydantic>=2.12' pyyaml safetensors tqdm
    export TPU_NAME='$name' TPU_LOAD_LIBRARY=0
    sh in_bucket.sh '$folder' phase1 keras-bert pretrain bert_base_phase1 \
        'data.corpus=text/*.txt' data.vocabulary=vocab.txt output=phase1 \
        devices.strategy=tpu devices.cluster='$name' devices.precision=mixed_bfloat16 logging.steps_per_loop=100
"
