"""Models of Hugging Face in and out: OPUS-MT, NLLB, M2M-100, mBART, BERT."""
