"""Models as pure JAX functions, and conveniences over them: `load` reads a checkpoint folder and gives a `Model`."""

from hajax.models import kimi_linear, ling3, qwen3_5
from hajax.models._generate import Generation
from hajax.models._load import load
from hajax.models._model import Model
from hajax.models._sampling import Sampling
from hajax.models._tokenizer import Detokenizer, Tokenizer

__all__ = ["Detokenizer", "Generation", "Model", "Sampling", "Tokenizer", "kimi_linear", "ling3", "load", "qwen3_5"]
