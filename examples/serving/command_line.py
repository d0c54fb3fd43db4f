"""The command line of both clients."""

import argparse


def read(description: str, address: str) -> tuple[argparse.Namespace, dict[str, list[str]]]:
    """Reads `model`, `signature` and `address`, and the texts of each input, one for each row."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", help="the model's name on the server")
    parser.add_argument(
        "inputs", nargs="+", metavar="NAME=TEXT", help="an input; repeat it for more rows"
    )
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--address", default=address)
    arguments = parser.parse_args()
    columns: dict[str, list[str]] = {}
    for argument in arguments.inputs:
        name, equals, text = argument.partition("=")
        if not equals:
            parser.error(f"{argument!r} names no input; write text={argument!r}.")
        columns.setdefault(name, []).append(text)
    if len({len(texts) for texts in columns.values()}) > 1:
        counts = ", ".join(f"{name} {len(texts)}" for name, texts in columns.items())
        parser.error(f"every input needs as many texts as the others, but there are: {counts}.")
    return arguments, columns
