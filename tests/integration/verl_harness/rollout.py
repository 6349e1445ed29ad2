"""Generation for the harness: a Ray actor that samples with transformers, where a GPU run has vLLM or SGLang."""

import asyncio

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput


class Server:
    """Samples token by token from its own copy of the policy; the trainer sends it new weights after each step."""

    def __init__(self, model_path: str, seed: int) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32).eval()
        self.generator = torch.Generator().manual_seed(seed)
        self.global_steps = 0
        self.one_at_a_time = asyncio.Lock()

    async def ready(self):
        return True

    async def generate(self, request_id=None, prompt_ids=None, sampling_params=None, **_):
        asked = dict(sampling_params or {})
        budget = int(asked.get("max_tokens") or asked.get("max_new_tokens") or 16)
        async with self.one_at_a_time:
            tokens, log_probs = self._sample(list(prompt_ids), budget, float(asked.get("temperature", 1.0) or 0.0))
        return TokenOutput(
            token_ids=tokens,
            log_probs=log_probs,
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    @torch.no_grad()
    def _sample(self, prompt, budget, temperature):
        tokens, log_probs, past, given = [], [], None, torch.tensor([prompt])
        for _ in range(budget):
            answer = self.model(given, past_key_values=past, use_cache=True)
            past = answer.past_key_values
            log_p = torch.log_softmax(answer.logits[0, -1].float() / (temperature or 1.0), -1)
            drawn = torch.multinomial(log_p.exp(), 1, generator=self.generator)
            token = int(drawn if temperature > 0 else log_p.argmax())
            tokens.append(token)
            log_probs.append(float(log_p[token]))
            given = torch.tensor([[token]])
            if token == self.model.config.eos_token_id:
                break
        return tokens, log_probs

    async def update_weights(self, weights, global_steps=None):
        self.model.load_state_dict(weights, strict=True)
        self.global_steps = self.global_steps if global_steps is None else global_steps

    async def _nothing(self, *_, **__):
        return {}

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing
    abort_all_requests = resume_generation = start_profile = stop_profile = _nothing


def _name(replica_rank: int) -> str:
    return f"harness_server_{replica_rank}"


class Replica(RolloutReplica):
    """One server per replica, reached by name."""

    async def launch_servers(self):
        name = _name(self.replica_rank)
        server = (
            ray.remote(Server)
            .options(name=name, num_cpus=0, max_concurrency=64)
            .remote(self.model_config.path, seed=self.replica_rank)
        )
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class Adapter(BaseRollout):
    """The trainer rank's side: gathers the sharded weights (a collective) and hands them to its own server."""

    def __init__(self, config, model_config, device_mesh, replica_rank=-1, **_):
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = torch.distributed.get_rank() if replica_rank < 0 else replica_rank

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, wire_format="named_tensors", global_steps=None, **_):
        gathered = {name: tensor.detach().cpu().float().clone() for name, tensor in weights}
        await ray.get_actor(_name(self.replica_rank)).update_weights.remote(gathered, global_steps)
