"""The program as its caller sees it: streams, exit codes, how soon it starts."""

import json
import os
import subprocess
import sys

import pytest

from tests.marks import others_swept


def command(*arguments, **options):
    code = "import sys; from keras_bert.cli import main; sys.exit(main())"
    options = {"capture_output": True, "timeout": 120, **options}
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, **options)


def test_help_is_quick_and_brings_no_tensorflow():
    code = (
        "import sys, time; start = time.process_time()\n"
        "from keras_bert.cli import main\n"
        "main(['--help'])\n"
        "assert time.process_time() - start < 0.5\n"
        "assert not {'pydantic', 'numpy', 'keras', 'tensorflow'} & set(sys.modules)\n"
        "main(['finetune', '--help'])\n"
        "assert not {'numpy', 'keras', 'tensorflow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_tensorflow_says_nothing_and_errors_are_one_line(small):
    done = command("fill-mask", "--model", "run/model", "the [MASK] was", cwd=small)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["masks"]
    (small / "one_class.csv").write_text("text,label\nfine,a\nbad,a\ngood,a\n")
    arguments = ("--model", "run/model", "--output", "new", "--train", "one_class.csv")
    done = command("finetune", *arguments, cwd=small)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [
        "keras-bert: one_class.csv: all examples have the label 'a'; a classifier needs at least "
        "two labels to tell apart."
    ]


def test_debug_shows_where():
    done = command("predict", "--model", "none", "text", "--debug")
    assert done.returncode == 2
    assert b"Traceback" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "stream", "code"),
    [("--help", "stdout", 141), ("nonsense", "stderr", 2)],
    ids=["results", "messages"],
)
def test_a_reader_that_has_gone(arguments, stream, code):
    """As SIGPIPE would have it for what was asked for; a message that cannot be said is no end."""
    reader, writer = os.pipe()
    os.close(reader)
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    done = command(arguments, capture_output=False, **{stream: writer, other: subprocess.PIPE})
    os.close(writer)
    assert (done.returncode, getattr(done, other)) == (code, b"")


def test_ctrl_c_is_one_line_and_130(run, monkeypatch):
    import keras_bert

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(keras_bert, "load", interrupted)
    result = run("predict", "--model", "tuned/model", "a")
    assert (result.code, result.errors) == (130, ["keras-bert: Interrupted."])


@pytest.mark.parametrize("arguments", ["finetune --model m --train t.csv --output o", "pretrain c"])
@pytest.mark.parametrize("backend", others_swept(["jax", "torch"]))
def test_another_backend_is_one_sentence(arguments, backend, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    done = command(*arguments.split(), cwd=tmp_path)
    purpose = {"finetune": "Fine-tuning", "pretrain": "Pretraining"}[arguments.split()[0]]
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [
        f"keras-bert: {purpose} needs TensorFlow, but Keras is set to compute with {backend}; "
        "unset KERAS_BACKEND, or set it to tensorflow."
    ]
    assert not any(tmp_path.iterdir())


def test_another_backend_is_one_sentence_in_python(monkeypatch):
    import keras

    from keras_bert.errors import InputError
    from keras_bert.finetuning import fine_tune
    from keras_bert.pretraining.training.trainer import pretrain

    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(InputError, match="Fine-tuning needs TensorFlow, but .* with jax"):
        fine_tune(None, None)
    with pytest.raises(InputError, match="Pretraining needs TensorFlow, but .* with jax"):
        pretrain(None)
