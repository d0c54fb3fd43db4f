"""Time `model.fit` on texts beside `model.fit` on ids that were made before.

    python benchmarks/fit_strings.py sst2/train.tsv --weights DIR --examples 6000

Both sides train on the same batches in the same order, in turns. `texts` tokenizes while it trains.
`ids` reads batches of ids from memory. Prints seconds per epoch, and the median of the rounds'
ratios, by the clock and by processor time, which other processes on the machine disturb least.
Also prints the processor time of tokenization without training.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--examples", type=int, default=60_000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    import keras
    import tensorflow as tf

    import keras_bert as kb
    from keras_bert.finetuning import read_examples

    examples = read_examples(options.data)
    examples = examples.take(range(min(options.examples, len(examples))))
    labels = sorted(set(examples.labels))
    model = kb.load(options.weights, task="classifier", labels=labels)
    model.compile(keras.optimizers.AdamW(1e-6), model.default_loss(), jit_compile=False)
    targets = model.targets_of(examples.labels)
    began_tokenizing = time.process_time()
    batches = tf.data.Dataset.from_tensor_slices((list(examples.texts), targets))
    batches = batches.batch(options.batch_size)
    batches = batches.map(lambda texts, y: (model.preprocessor(texts), y)).cache()
    for _ in batches:  # fills the cache
        pass
    seconds_alone = time.process_time() - began_tokenizing
    print(f"tokenization alone, processor time: {seconds_alone:.2f} s", flush=True)
    settings = {"batch_size": options.batch_size, "shuffle": False, "verbose": 0}
    sides = {
        "texts": lambda: model.fit(examples.texts, targets, **settings),
        "ids": lambda: model.fit(batches.prefetch(tf.data.AUTOTUNE), shuffle=False, verbose=0),
    }
    for side in sides.values():  # compiles both
        side()
    ratios: dict[str, list[float]] = {"clock": [], "processor time": []}
    for number in range(options.rounds):
        seconds = {}
        for name, side in list(sides.items())[:: 1 if number % 2 else -1]:
            began = time.monotonic(), time.process_time()
            side()
            seconds[name] = time.monotonic() - began[0], time.process_time() - began[1]
        for kind, texts, ids in zip(ratios, seconds["texts"], seconds["ids"], strict=True):
            ratios[kind].append(texts / ids)
            print(f"round {number + 1}, {kind}: texts {texts:.1f} s, ids {ids:.1f} s", flush=True)
    for kind, values in ratios.items():
        print(f"texts / ids, {kind}: {statistics.median(values):.3f}")


if __name__ == "__main__":
    main()
