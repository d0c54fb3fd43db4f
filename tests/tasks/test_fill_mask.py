import pytest

import keras_bert as kb
from keras_bert.tasks.fill_mask import fill_mask
from tests.text.test_loading import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_one_text_is_a_batch_of_one(kind):
    tokenizer = KINDS[kind]()
    size, mask = len(tokenizer.vocabulary), tokenizer.vocabulary.mask
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "intermediate_size": 16}
    config = kb.EncoderConfig(vocabulary_size=size, max_positions=16, **sizes)
    preprocessor = kb.Preprocessor(tokenizer, 16)
    model = kb.MaskedLanguageModel(kb.Encoder(config), preprocessor=preprocessor)
    found = fill_mask(model, f"the {mask}", top_k=size)
    assert found == fill_mask(model, [f"the {mask}"], top_k=size)
    ((answers,),) = found
    assert sum(answer["score"] for answer in answers) == pytest.approx(1, abs=1e-5)
    assert {answer["token"] for answer in answers} == {tokenizer.readable(i) for i in range(size)}
    assert fill_mask(model, []) == []
    with pytest.raises(kb.InputError, match="There is no .* within the first 16 tokens of 'the'"):
        fill_mask(model, "the")


def test_a_model_that_has_no_mask_says_so():
    tokenizer = KINDS["wordpiece"]()
    size = tokenizer.vocabulary.mask_id
    config = kb.EncoderConfig(
        vocabulary_size=size, hidden_size=4, num_layers=1, num_heads=1, intermediate_size=4
    )
    encoder = kb.Encoder(config)
    model = kb.MaskedLanguageModel(encoder, preprocessor=kb.Preprocessor(tokenizer, 16))
    with pytest.raises(kb.InputError, match=f"its vocabulary has {size} tokens"):
        fill_mask(model, "the [MASK]")
