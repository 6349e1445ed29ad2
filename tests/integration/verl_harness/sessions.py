"""An agent whose sessions have several rows: it breaks every second response in two, as a context reset would."""

from verl.experimental.agent_loop.agent_loop import register
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


@register("harness_sessions")
class Sessions(SingleTurnAgentLoop):
    """verl's single turn; responses with an even first token come back as two rows."""

    async def run(self, sampling_params, **kwargs):
        whole = await super().run(sampling_params, **kwargs)
        half = len(whole.response_ids) // 2
        if half == 0 or whole.response_ids[0] % 2:
            return whole
        first, second = whole.model_copy(deep=True), whole.model_copy(deep=True)
        first.response_ids, second.response_ids = whole.response_ids[:half], whole.response_ids[half:]
        second.prompt_ids = whole.prompt_ids + first.response_ids
        for part, kept in ((first, slice(half)), (second, slice(half, None))):
            part.response_mask = whole.response_mask[kept]
            part.response_logprobs = whole.response_logprobs[kept] if whole.response_logprobs else None
        return [first, second]
