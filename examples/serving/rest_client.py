"""Ask TensorFlow Serving over REST, with Python's standard library only.

    python rest_client.py reviews text="A warm film." text="I want my money back."
    python rest_client.py squad --signature question_answer question="Who?" context="It was Ada."
    python rest_client.py bert --signature fill_mask text="the [MASK] sat"

This client was tested with a small server of our own that loads the same SavedModel, never with
TensorFlow Serving itself.
"""

import json
import urllib.error
import urllib.request

from command_line import read


def main() -> None:
    arguments, columns = read(__doc__.split("\n")[0], "http://localhost:8501")
    for answer in ask(arguments.address, arguments.model, arguments.signature, columns):
        print(json.dumps(answer, ensure_ascii=False))


def ask(address: str, model: str, signature: str, columns: dict[str, list[str]]) -> list[dict]:
    """Returns a dictionary of outputs for each row of texts."""
    rows = zip(*columns.values(), strict=True)
    body = {
        "signature_name": signature,
        "instances": [dict(zip(columns, row, strict=True)) for row in rows],
    }
    request = urllib.request.Request(
        f"{address}/v1/models/{model}:predict",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return [without_filling(row) for row in json.load(response)["predictions"]]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"The server answered {error.code}: {error.read().decode()}") from None
    except OSError as error:  # connecting failed (with a reason) or reading failed
        reason = getattr(error, "reason", error)
        raise SystemExit(f"No server answers at {address}: {reason}.") from None


def without_filling(row: dict) -> dict:
    """Returns a row without its fill values. The server fills rows to the widest of a batch.

    A filled entity or token has the score -1.
    """
    if "entities" in row:
        wide = ("entities", "labels", "starts", "ends", "scores")
        kept = [index for index, score in enumerate(row["scores"]) if score >= 0]
    elif "tokens" in row:
        wide = ("tokens", "scores")
        kept = [index for index, scores in enumerate(row["scores"]) if scores[0] >= 0]
    else:
        return row
    return {
        name: [value[index] for index in kept] if name in wide else value
        for name, value in row.items()
    }


if __name__ == "__main__":
    main()
