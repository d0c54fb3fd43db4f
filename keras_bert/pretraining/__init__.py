"""Text to a trained encoder: corpus, pairs, masks, and the loop on `tf.distribute`."""
