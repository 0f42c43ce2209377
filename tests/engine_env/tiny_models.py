"""Run by the environment's interpreter: write tiny random models below the folder given.

`tiny` is a dense Llama, `tiny-experts` a Mixtral with four experts, two for each token. Head size
32 is the smallest that vLLM's CPU attention takes. The tokenizer has a token a byte, so that any
prompt is one of known length and no vocabulary is needed.
"""

import sys
from pathlib import Path

# None of these is in the environment for development, where this file is only checked.
import torch  # type: ignore[import-not-found]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
)
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

SPECIAL = ("<s>", "</s>")
CHAT = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
# Transformers' default of 0.02 gives nearly flat attention: the last token alone would decide.
# So wide, greedy output hangs on the whole prompt, and a test sees if its KV cache was lost.
WEIGHT_DEVIATION = 0.12


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Tokenizer with a token for each byte, after the two special ones."""
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    begin, end = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=begin, eos_token=end, chat_template=CHAT
    )


def random_models(vocabulary: int) -> dict[str, PreTrainedModel]:
    """Models by the name of their folder, with weights drawn from a fixed seed."""
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "tie_word_embeddings": False,
        "dtype": "float32",
    }
    experts = MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2)
    models = {
        "tiny": LlamaForCausalLM(LlamaConfig(**shape)),
        "tiny-experts": MixtralForCausalLM(experts),
    }
    for model in models.values():
        draw_weights(model)
    return models


def draw_weights(model: PreTrainedModel) -> None:
    """Draw all weights but the norms', which stay at one."""
    generator = torch.Generator().manual_seed(20)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.dim() >= 2:
                weight.normal_(0.0, WEIGHT_DEVIATION, generator=generator)


def main(folder: Path) -> None:
    """Write configuration, tokenizer and weights of each model."""
    tokenizer = byte_tokenizer()
    for name, model in random_models(len(tokenizer)).items():
        tokenizer.save_pretrained(folder / name)
        model.save_pretrained(folder / name)
        for file in (folder / name).iterdir():
            file.chmod(0o644)  # the weights are written for their owner alone


if __name__ == "__main__":
    main(Path(sys.argv[1]))
