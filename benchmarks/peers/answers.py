"""Choose the peer's answers from logits of windows, and score them as SQuAD 1.1 does."""

import re
import string
from collections import Counter

import numpy as np

N_BEST = 20


def best_answers(windows, contexts, longest):
    """Returns the best answer in each context, as Hugging Face's question answering example does.

    Pairs the 20 best starts and the 20 best ends of every window. Drops pairs outside of the
    context, backwards, or longer than `longest` tokens. Takes the pair with the highest sum of
    logits over all windows.

    Args:
        windows: for each question, a list of (start logits, end logits, offsets). Offsets are -1
            outside of the context.
        contexts: context of each question.
        longest: maximum number of tokens of an answer.
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
    """Returns the mean exact match and F1, from 0 to 1, with the best of the golden answers."""
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
    """Lowercases; removes punctuation, articles and superfluous white space."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())
