"""From logits of windows to answers, and the official scores of SQuAD 1.1, for the peer."""

import re
import string
from collections import Counter

import numpy as np

N_BEST = 20


def best_answers(windows, contexts, longest):
    """The best slice of each context, as Hugging Face's question answering example finds it.

    Of every window the 20 best starts and ends are paired; pairs outside the context, backwards
    or longer than `longest` tokens are dropped; the highest sum of logits over all windows wins.

    Args:
        windows: per question a list of (start logits, end logits, offsets), offsets -1 outside
            the context.
        contexts: per question.
        longest: tokens of an answer.
    """
    answers = []
    for parts, context in zip(windows, contexts, strict=True):
        best, answer = -np.inf, ""
        for starts, ends, offsets in parts:
            for start in np.argsort(-starts[: len(offsets)])[:N_BEST]:
                for end in np.argsort(-ends[: len(offsets)])[:N_BEST]:
                    inside = offsets[start, 0] >= 0 and offsets[end, 0] >= 0
                    if not inside or not start <= end < start + longest:
                        continue
                    if starts[start] + ends[end] > best:
                        best = starts[start] + ends[end]
                        answer = context[offsets[start, 0] : offsets[end, 1]]
        answers.append(answer)
    return answers


def exact_match_and_f1(answers, golden):
    """Shares of 1; the best of the golden answers counts."""
    exact = [
        max(normalized(a) == normalized(g) for g in gs)
        for a, gs in zip(answers, golden, strict=True)
    ]
    overlap = [max(token_f1(a, g) for g in gs) for a, gs in zip(answers, golden, strict=True)]
    return {"f1": float(np.mean(overlap)), "exact_match": float(np.mean(exact))}


def token_f1(answer, golden):
    answer, golden = normalized(answer).split(), normalized(golden).split()
    common = sum((Counter(answer) & Counter(golden)).values())
    return 2 * common / (len(answer) + len(golden)) if common else 0.0


def normalized(text):
    """Lower case, without punctuation, articles and superfluous white space."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())
