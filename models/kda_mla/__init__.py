"""What Kimi Linear and Ling 3.0 have in common: KDA and latent attention in turn, dense or sparse feed-forwards, plain norms."""
