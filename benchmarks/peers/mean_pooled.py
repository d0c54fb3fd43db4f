"""A BERT classifier on the mean of the tokens, for encoders that were trained with mean pooling."""

from torch.nn import functional
from transformers import BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput


class MeanPooledClassifier(BertForSequenceClassification):
    """Classifies the mean of the last layer's tokens; it has no pooler."""

    def __init__(self, config):
        super().__init__(config)
        self.bert.pooler = None

    def forward(self, input_ids, attention_mask, token_type_ids, labels=None):
        """Maps tensors `[B, T]` and labels `[B]` to the loss and logits `[B, labels]`."""
        states = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        logits = self.classifier(self.dropout((states * mask).sum(1) / mask.sum(1)))
        loss = None
        if labels is not None and self.num_labels == 1:
            loss = functional.mse_loss(logits[:, 0], labels)
        elif labels is not None:
            loss = functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
