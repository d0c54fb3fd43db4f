import numpy as np

from keras_bert.metrics import retrieval
from keras_bert.metrics.retrieval import accuracy_at_1, mean_reciprocal_rank, ranks


def by_hand(queries, documents, own, right):
    results = []
    for query, document, others in zip(queries, own, right, strict=True):
        cosines = [query @ d / np.linalg.norm(query) / np.linalg.norm(d) for d in documents]
        wrong = [c for i, c in enumerate(cosines) if i not in others]
        results.append(1 + sum(c >= cosines[document] for c in wrong))
    return results


def test_ranks(monkeypatch):
    monkeypatch.setattr(retrieval, "_QUERIES", 7)
    rng = np.random.default_rng(0)
    for count in (1, 5, 40):
        queries, documents = rng.normal(size=(count, 3)), rng.normal(size=(12, 3))
        own = rng.integers(0, 12, count)
        right = [sorted({o, *rng.integers(0, 12, rng.integers(0, 4))}) for o in own]
        actual = ranks(queries, documents, own, right)
        assert actual.tolist() == by_hand(queries, documents, own, right)


def test_what_makes_all_texts_alike_finds_nothing():
    same = np.ones((4, 3))
    assert ranks(same, same, np.arange(4), [[i] for i in range(4)]).tolist() == [4] * 4
    zeros = np.zeros((4, 3))
    assert ranks(zeros, zeros, np.arange(4), [[i] for i in range(4)]).tolist() == [4] * 4


def test_means():
    assert accuracy_at_1(np.array([1, 2, 1, 4])) == 0.5
    assert mean_reciprocal_rank(np.array([1, 2, 1, 4])) == (1 + 1 / 2 + 1 + 1 / 4) / 4
