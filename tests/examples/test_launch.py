"""Launch scripts for several machines: run where possible, otherwise read."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import keras_bert as kb
from keras_bert.cli import INTERRUPTED, TRY_AGAIN, WRONG_INPUT
from keras_bert.distribution.strategy import from_kubernetes
from keras_bert.options import fields
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.recipes import read_config, recipes
from tests import left_processes

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
FILES = sorted(LAUNCH.iterdir())


@pytest.fixture
def environment(tmp_path):
    """With our command, and stand-ins for what is not here: each writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def stand_in(name, code):
        (folder / name).write_text(f"#!/bin/sh\necho {name} \"$@\" >> '{folder}/calls'\n{code}\n")
        (folder / name).chmod(0o755)

    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    return folder, stand_in, os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": "-1"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_says_whether_it_was_run_and_names_options_that_there_are(file):
    text = file.read_text()
    assert re.search(r"^# Run here: (yes|no),", text, re.MULTILINE)
    code = re.sub(r"^\s*#.*|\\\n", "", text, flags=re.MULTILINE)
    known = set(fields(PretrainingConfig))
    commands = re.findall(r"keras-bert pretrain (.*)|args:((?:\s+- \S+=.*)+)", code)
    assert commands or '"$@"' in code  # or it runs what it is given
    for command in map("".join, commands):
        used = re.findall(r"(?:^|[\s'\"])([a-z_.]+)=", command)
        assert used
        assert set(used) <= known, file
    assert set(re.findall(r"keras-bert,? pretrain,? (\w+)", code)) <= recipes().keys()


@pytest.mark.parametrize(
    "name", ["multi_worker.sh", "slurm.sbatch", "tpu_pod.sh", "kubernetes.yaml"]
)
def test_each_that_starts_several_says_who_can_reach_them(name):
    text = (LAUNCH / name).read_text()
    assert re.search("TensorFlow's servers? listens? on all", text)
    assert "firewall" in text or "NetworkPolicy" in text


def test_kubernetes_file_fits_together():
    service, policy, job = yaml.safe_load_all((LAUNCH / "kubernetes.yaml").read_text())
    name, pods = job["metadata"]["name"], job["spec"]["template"]["spec"]
    (container,) = pods["containers"]
    assert service["spec"]["selector"] == {"job-name": name}
    assert service["metadata"]["name"] == pods["subdomain"]
    assert service["spec"]["clusterIP"] == "None"
    workers = {"matchLabels": {"job-name": name}}
    assert (policy["kind"], policy["spec"]["podSelector"]) == ("NetworkPolicy", workers)
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": workers}]}]
    assert job["spec"]["completionMode"] == "Indexed"
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert int(variables["WORKERS"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    host = f"{name}-1.{pods['subdomain']}.default.svc.cluster.local"  # so is a pod called there
    cluster = from_kubernetes(variables | {"POD_NAME": host})
    assert cluster.index == 1
    assert cluster.workers[1] == f"{host}:{container['ports'][0]['containerPort']}"
    program, verb, recipe = container["command"]
    assert (program, verb) == ("keras-bert", "pretrain")
    config = read_config(recipe, container["args"])
    assert (config.devices.strategy, config.devices.cluster) == ("multi_worker", "kubernetes")
    final, disrupted, saved = job["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": container["name"], "operator": "In"}
    assert final == {"action": "FailJob", "onExitCodes": codes | {"values": [WRONG_INPUT]}}
    assert disrupted["action"] == "Ignore"
    assert saved == {"action": "Ignore", "onExitCodes": codes | {"values": [INTERRUPTED]}}
    assert pods["restartPolicy"] == "Never"  # no other goes with such rules


SAVED, LOST, KILLED = INTERRUPTED, TRY_AGAIN, 128 + 9


@pytest.mark.parametrize(
    ("codes", "restarts", "queued"),
    [
        ([0, 0], 0, False),
        ([SAVED, SAVED], 99, True),
        ([LOST, LOST], 0, True),
        ([LOST, KILLED], 0, True),
        ([LOST, LOST], 100, False),
        ([WRONG_INPUT, LOST], 0, False),
        ([1, 1], 0, False),
    ],
)
def test_a_slurm_job_that_can_go_on_queues_again(codes, restarts, queued, environment, tmp_path):
    """And gets SIGTERM as its program does."""
    folder, stand_in, variables = environment
    each = 'CODE=$code "$@"; code=$?; [ $code -lt $highest ] || highest=$code'
    tasks = f"for code in {shlex.join(map(str, codes))}; do {each}; done"
    stand_in("srun", f"highest=0; {tasks}; exit $highest")
    stand_in("keras-bert", "kill -TERM $PPID; exit $CODE")
    stand_in("scontrol", "")
    variables |= {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(restarts), "HOME": str(tmp_path)}
    done = subprocess.run(["bash", str(LAUNCH / "slurm.sbatch")], env=variables, timeout=60)
    calls = (folder / "calls").read_text()
    assert calls.count("keras-bert pretrain bert_base_phase1 data.corpus=") == 1 + len(codes)
    assert ("scontrol requeue 7" in calls) == queued
    assert (done.returncode == 0) == (queued or not any(codes))


@pytest.mark.parametrize("script", ["tpu_vm.sh", "tpu_pod.sh"])
def test_tpu_scripts_are_whole(script, environment):
    """The commands for the other machine are a shell's, with what was given in them."""
    folder, stand_in, variables = environment
    stand_in("gcloud", 'for last; do :; done; [ "$4" = create ] || sh -n -c "$last"')
    command = [str(LAUNCH / script), "name", "zone", "gs://bucket/folder"]
    subprocess.run(command, env=variables, check=True, timeout=60)
    calls = (folder / "calls").read_text()
    assert "gcloud compute tpus tpu-vm create name --zone zone" in calls
    assert f"tpu-vm scp {LAUNCH}/in_bucket.sh {LAUNCH}/../../build/package/" in calls
    assert (
        "sh in_bucket.sh 'gs://bucket/folder' phase1 keras-bert pretrain bert_base_phase1" in calls
    )
    assert subprocess.run([command[0]], env=variables, stderr=subprocess.DEVNULL).returncode


def test_a_checkpoint_whose_copy_was_cut_off_is_none(environment, tmp_path):
    """The file that marks a checkpoint is copied last, so a partial copy lacks it."""
    folder, stand_in, variables = environment
    bucket, machine = tmp_path / "bucket", tmp_path / "machine"
    part, whole = (bucket / "run" / "checkpoints" / name for name in ("step-2", "step-1"))
    for path in (part, whole, machine):
        path.mkdir(parents=True)
    (whole / "progress.json").write_text("{}")
    (part / "weights.safetensors").write_text("half")
    stand_in("gcloud", """[ $# -eq 5 ] || exit 0; cp -r "$4/." "$5" """)  # from the bucket only
    stand_in("keras-bert", "ls run/checkpoints")
    command = ["sh", str(LAUNCH / "in_bucket.sh"), str(bucket), "run", "keras-bert", "pretrain"]
    done = subprocess.run(command, cwd=machine, env=variables, timeout=60, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, b"step-1\n")
    calls = [line for line in (folder / "calls").read_text().splitlines() if "rsync" in line]
    assert ["--exclude" in call for call in calls] == [False, True, False, False]


@pytest.mark.parametrize("code", [0, INTERRUPTED])
def test_a_run_is_kept_in_a_bucket(code, environment, tmp_path):
    """From the copy of an earlier one, while it goes on and however it ends, also by SIGTERM."""
    _, stand_in, variables = environment
    bucket, machine = tmp_path / "bucket", tmp_path / "machine"
    for path in (bucket / "text", bucket / "run" / "step-1", machine):
        path.mkdir(parents=True)
    (bucket / "text" / "a.txt").write_text("a")
    stand_in(
        "gcloud",
        """case "$4" in
        --delete-unmatched-destination-objects) shift; rm -r "$5"/*;;
        --exclude=*) shift;;
        esac
        cp -r "$4/." "$5" """,
    )
    stand_in(
        "keras-bert",
        f"""cat text/a.txt && mv run/step-1 run/step-2 || exit 1
        until [ -d '{bucket}/run/step-2' ] && [ ! -d '{bucket}/run/step-1' ]; do sleep 0.1; done
        mkdir run/model; [ {code} -eq 0 ] || kill -TERM $PPID; exit {code}""",
    )
    variables |= {"COPY_EVERY": "0.1"}
    command = ["sh", str(LAUNCH / "in_bucket.sh"), str(bucket), "run", "keras-bert", "pretrain"]
    done = subprocess.run(command, cwd=machine, env=variables, timeout=60, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (code, b"a")
    assert {path.name for path in (bucket / "run").iterdir()} == {"step-2", "model"}


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_no_process_is_left_in_a_bucket_run_that_ends_at_once(shell, environment, tmp_path):
    """The loop that copies must end, even if it has hardly begun."""
    _, stand_in, variables = environment
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    stand_in("gcloud", "")
    stand_in("keras-bert", "")
    command = [shell, str(LAUNCH / "in_bucket.sh"), "gs://bucket", "run", "keras-bert", "pretrain"]
    for turn in range(5):
        own = {"TURN": f"{tmp_path} {turn}"}
        subprocess.run(command, cwd=tmp_path, env=variables | own, timeout=60, check=True)
        assert left_processes.living("TURN", own["TURN"]) == []


def test_no_process_is_left_of_a_bucket_run_that_is_killed(environment, tmp_path):
    _, stand_in, variables = environment
    stand_in("gcloud", "")
    stand_in("keras-bert", "kill -KILL $PPID")
    variables |= {"TURN": str(tmp_path)}
    command = ["sh", str(LAUNCH / "in_bucket.sh"), "gs://bucket", "run", "keras-bert", "pretrain"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert left_processes.after_grace("TURN", str(tmp_path)) == []


def test_what_has_written_nothing_ends_with_its_own_code(environment, tmp_path):
    _, stand_in, variables = environment
    stand_in("gcloud", "")
    stand_in("keras-bert", "exit 2")
    command = ["sh", str(LAUNCH / "in_bucket.sh"), "gs://bucket", "run", "keras-bert", "pretrain"]
    assert subprocess.run(command, cwd=tmp_path, env=variables, timeout=60).returncode == 2


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.slow
def test_two_workers_on_loopback(environment, tmp_path):
    """As in two terminals: both end well, and one model comes of it."""
    words = ("sun", "moon", "sea", "wind")
    (tmp_path / "text.txt").write_text(
        "\n\n".join(f"{a} {b}\n{b} {a}" for a in words for b in words)
    )
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    kb.Vocabulary(vocabulary).save(tmp_path / "vocab.txt")
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    options = f"""fast data.corpus={tmp_path}/text.txt output={tmp_path}/run
        data.vocabulary={tmp_path}/vocab.txt data.sequence_length=8 data.validation_ratio=0
        model.encoder.hidden_size=8 model.encoder.num_layers=1 model.encoder.num_heads=2
        model.encoder.intermediate_size=16 schedule.batch_size=4 schedule.steps=3"""
    processes = [
        subprocess.Popen(
            [str(LAUNCH / "multi_worker.sh"), str(index), *workers, "--", *shlex.split(options)],
            env=environment[2],
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in (0, 1)
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert kb.load(tmp_path / "run" / "model").config.vocabulary_size == 64


def test_a_worker_without_a_command_is_told_how():
    done = subprocess.run(
        [str(LAUNCH / "multi_worker.sh"), "0", "a:8888"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "usage: multi_worker.sh INDEX" in done.stderr
