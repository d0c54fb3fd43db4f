"""Kills a run at random moments, and looks whether anyone can tell in the end.

    python -m tests.pretraining.kills --kills 20 --strategy multi_worker

Every time, one process of the run is killed by SIGKILL: after a step, somewhat later, or after a
file of a checkpoint has been written. All processes are then started again. In the end, weights and
log must be those of a run without interruption to the last bit, and every example must have been
seen once in every epoch.
"""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.pretraining import processes, run
from tests.pretraining.text import write_text


def survive(config, kills, rng):
    """Runs a configuration to its end, killed so many times; yields a sentence for each."""
    checkpoints = Path(config.output, "checkpoints")
    for _ in range(kills):
        last = max([int(p.name.removeprefix("step-")) for p in checkpoints.glob("step-*")] or [0])
        victim = rng.randrange(processes.PROCESSES[config.devices.strategy])
        fate = ("after", last + rng.randint(1, 6), rng.uniform(0, 0.05), signal.SIGKILL)
        if victim == 0 and rng.random() < 0.4:  # only the first one writes
            fate = ("during", rng.randint(1, 4))
        codes = processes.launch(config, {victim: fate})
        if not any(codes):
            break  # it was faster
        assert codes[victim] == processes.KILLED, (codes, processes.said(config, victim))
        for index, code in enumerate(codes):
            if index != victim:
                assert code == processes.REFUSED, (codes, processes.said(config, index))
                assert "another one has stopped" in processes.said(config, index)
        yield f"process {victim} killed {fate[0]} {fate[1]}"
    codes = processes.launch(config)
    assert not any(codes), (codes, processes.said(config))


def check(text, folder, strategy, kills, seed, **options):
    """The same run with and without kills; returns how many there were."""
    whole, killed = (
        run.config(text, folder / name, strategy=strategy, **options)
        for name in ("whole", "killed")
    )
    codes = processes.launch(whole)
    assert not any(codes), (codes, processes.said(whole))
    number = 0
    for number, sentence in enumerate(survive(killed, kills, random.Random(seed)), 1):
        print(f"{strategy} {number}: {sentence}", flush=True)
    run.assert_same_run(Path(killed.output), Path(whole.output))
    assert not list(Path(killed.output, "checkpoints").glob(".*"))
    seen = processes.seen(killed)
    assert seen == processes.seen(whole)
    for epoch in range(max(seen)):  # the last one is not complete
        assert seen[epoch] == processes.examples_of(whole, epoch)
        print(f"{strategy}: epoch {epoch}, {seen[epoch].total()} examples, each seen once")
    return number


def main():
    parser = argparse.ArgumentParser(description="Kills a run at random moments.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--strategy", choices=processes.PROCESSES, default="default")
    parser.add_argument("--seed", type=int, default=random.randrange(2**16))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        steps = 10 + 3 * arguments.kills
        number = check(
            write_text(Path(folder)),
            Path(folder),
            arguments.strategy,
            arguments.kills,
            arguments.seed,
            steps=steps,
            checkpoint_every=3,
            evaluate_every=10,
        )
    print(f"{number} kills, {steps} steps: the same weights and log to the last bit")
    return 0 if number == arguments.kills else 1


if __name__ == "__main__":
    sys.exit(main())
