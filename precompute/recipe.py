"""What the tiny suite is: five Llama-shaped models, their experiments in the authors' YAML keys, one schedule."""

from dataclasses import dataclass
from typing import Any

LENGTH = 256
BATCH = 16
VOCABULARY = 4096
HELD_OUT_CHARACTERS = 240_000

LLAMA = {
    "architectures": ["MoRLlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 344,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LENGTH,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


@dataclass(frozen=True)
class Experiment:
    """One model of the suite: `kind` is vanilla, expert or token; one layer a recursion."""

    kind: str
    recursions: int | None = None

    @property
    def name(self) -> str:
        """The experiment's name, put together as the authors do."""
        stem = "pretrain_tiny-1m"
        if self.kind == "vanilla":
            return f"{stem}_vanilla_lr3e-3"
        router = {"expert": "expert_linear_alpha_0.1_sigmoid_aux_loss_0.001", "token": "token_softmax_bal_loss_coeff_0.1_linear_zloss_1e-5"}
        return f"{stem}_rec{self.recursions}_middle_cycle_random_lr3e-3_mor_{router[self.kind]}"

    def overrides(self) -> dict[str, int]:
        """What four recursions change in the Llama configuration: a layer each beside the first and the last."""
        return {"num_hidden_layers": 6} if self.recursions == 4 else {}

    def yaml(self, tokens: int) -> dict[str, Any]:
        """pretrain.yaml for a training of `tokens` tokens, rounded down to whole steps."""
        steps = tokens // (BATCH * LENGTH)
        return {
            "name": self.name,
            "precision": "fp32",
            "model_config": self.overrides(),
            "max_length": LENGTH,
            "add_bos_token": False,
            "total_batch_size": BATCH,
            "num_train_steps": steps,
            "num_warmup_steps": max(1, steps // 20),
            "num_decay_steps": max(1, steps // 5),
            "learning_rate": 3e-3,
            "weight_decay": 0.1,
            "adam_beta1": 0.9,
            "adam_beta2": 0.95,
            "max_grad_norm": 1.0,
            "recursive": {
                "enable": self.recursions is not None,
                "base_depth": None,
                "num_recursion": self.recursions or 2,
                "sharing": "middle_cycle",
                "ln_share": True,
                "initialization": "random",
            },
            "kv_sharing": {"enable": False},
            "relaxation": {"enable": False},
            "mor": self._mor(),
        }

    def _mor(self) -> dict[str, Any]:
        if self.kind == "vanilla":
            return {"enable": False}
        choice = {
            "expert": {"router_func": "sigmoid", "alpha": 0.1, "sampling": "aux_loss", "coeff": 0.001, "gating": "weighted"},
            "token": {"router_func": "softmax", "alpha": 1.0, "balancing": "loss", "coeff": 0.1, "gating": "weighted"},
        }
        return {
            "enable": True,
            "type": self.kind,
            "capacity": None,
            "rand_router": False,
            "router_type": "linear",
            "temp": 1.0,
            "z_loss": self.kind == "token",
            "z_coeff": 1.0e-5,
            self.kind: choice[self.kind],
        }


EXPERIMENTS = {
    "vanilla": Experiment("vanilla"),
    "expert-3": Experiment("expert", 3),
    "token-3": Experiment("token", 3),
    "expert-2": Experiment("expert", 2),
    "expert-4": Experiment("expert", 4),
}
