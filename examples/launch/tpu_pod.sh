#!/bin/sh
# Trains on a slice of a TPU pod: several hosts, with one process that controls all of them.
#
# Run here: no, there is no TPU here. The commands and versions of Google Cloud are from its
# documentation, from memory: see "Run TensorFlow code on TPU Pod slices" there.
#
#   examples/launch/tpu_pod.sh NAME ZONE GS://BUCKET/FOLDER
#
# With TensorFlow, a slice needs the image for pods: TensorFlow's server runs on each host, and the
# program runs on the first host only. The image and the program must have the same version of
# TensorFlow. tpu_vm.sh describes the folder, and what to do if the slice was taken away.
#
# TensorFlow's servers listen on all network interfaces and ask for no password. Let the network's
# firewall admit only ssh and the hosts of the slice.
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
