"""Filters a corpus and removes duplicates with datatrove, before `keras-bert tokenize`.

    python -m venv clean
    clean/bin/pip install "datatrove[io,processing]" spacy
    clean/bin/python examples/clean_corpus.py raw clean --tasks 2
    keras-bert tokenize "clean/text/*.jsonl.gz" --vocabulary vocab.txt --output records

datatrove has many dependencies, so it has an environment of its own. `raw` is a folder, or an
address such as s3://bucket/raw, with JSON lines, plain or compressed. A record is a document with
its text in the field "text". The steps remove documents that are short, documents that repeat
themselves (Gopher's rules), and all but one of the documents that are equal or nearly equal
(MinHash of 5-grams of words). A call that was interrupted continues.
"""

import argparse

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import GopherRepetitionFilter, LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

CONFIG = MinhashConfig()  # 14 buckets of 8 hashes: finds documents whose similarity is about 0.75


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("raw")
    parser.add_argument("output")
    parser.add_argument("--tasks", type=int, default=1, help="parts of the work")
    parser.add_argument("--workers", type=int, default=-1, help="processes; by default, all tasks")
    parser.add_argument("--language", default="en", help="language for the division into words")
    parser.add_argument("--min-characters", type=int, default=100)
    options = parser.parse_args()
    output, language, least = options.output, options.language, options.min_characters
    steps = {
        "filter": [
            JsonlReader(options.raw),
            LambdaFilter(lambda document: len(document.text) >= least),
            GopherRepetitionFilter(language=language),
            JsonlWriter(f"{output}/filtered"),
        ],
        "signatures": [
            JsonlReader(f"{output}/filtered"),
            MinhashDedupSignature(f"{output}/signatures", config=CONFIG, language=language),
        ],
        "buckets": [
            MinhashDedupBuckets(f"{output}/signatures", f"{output}/buckets", config=CONFIG)
        ],
        "clusters": [
            MinhashDedupCluster(f"{output}/buckets", f"{output}/duplicates", config=CONFIG)
        ],
        "text": [
            JsonlReader(f"{output}/filtered"),
            MinhashDedupFilter(f"{output}/duplicates"),
            JsonlWriter(f"{output}/text"),
        ],
    }
    tasks = {"buckets": CONFIG.num_buckets, "clusters": 1}
    for name, pipeline in steps.items():
        LocalPipelineExecutor(
            pipeline=pipeline,
            tasks=tasks.get(name, options.tasks),
            workers=options.workers,
            logging_dir=f"{output}/logs/{name}",
        ).run()


if __name__ == "__main__":
    main()
