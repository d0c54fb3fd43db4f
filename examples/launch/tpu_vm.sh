#!/bin/sh
# Trains on all chips of one TPU VM, for example the eight of a v5litepod-8.
#
# Run here: no, there is no TPU here. The training step itself is compiled for a v5e by
# `make tpu-check`. The commands of Google Cloud are from its documentation, from memory.
#
#   examples/launch/tpu_vm.sh NAME ZONE GS://BUCKET/FOLDER
#
# The folder holds text/*.txt and vocab.txt. in_bucket.sh copies the run's output to the folder. If
# the TPU was taken away, delete it (gcloud compute tpus tpu-vm delete) and give the same command
# again. The run continues from the last checkpoint in the folder. For a second phase, change the
# recipe and both names of its output below, and add model.init_checkpoint=phase1/model.
set -eu

usage="usage: tpu_vm.sh NAME ZONE GS://BUCKET/FOLDER"
name=${1:?$usage} zone=${2:?$usage} folder=${3:?$usage}

gcloud compute tpus tpu-vm create "$name" --zone "$zone" \
    --accelerator-type v5litepod-8 --version v2-alpha-tpuv5-lite
# The package is not on PyPI yet; `make package` builds the wheel.
gcloud compute tpus tpu-vm scp "$(dirname "$0")/in_bucket.sh" "$(dirname "$0")"/../../build/package/*.whl \
    "$name:" --zone "$zone"

# 2.20 is the last version of tensorflow-tpu. Without the limit, pip installs a libtpu that is too
# new for it. With its dependencies, tensorflow-text would install another tensorflow.
gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --command "
    set -eu
    python3 -m venv bert && . bert/bin/activate
    pip install tensorflow-tpu==2.20.0 'libtpu>=0.0.14,<0.0.32' \
        -f https://storage.googleapis.com/libtpu-tf-releases/index.html
    pip install --no-deps tensorflow-text==2.20.1 ./keras_bert_encoders-*.whl
    pip install click 'keras>=3.12' 'ml-dtypes>=0.4' 'pydantic>=2.12' pyyaml safetensors tqdm
    sh in_bucket.sh '$folder' phase1 keras-bert pretrain bert_base_phase1 \
        'data.corpus=text/*.txt' data.vocabulary=vocab.txt output=phase1 \
        devices.strategy=tpu devices.precision=mixed_bfloat16 logging.steps_per_loop=100
"
