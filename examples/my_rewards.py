"""A reward function as TRL calls it: one number, or None, per completion."""


def correct(completions, answer, **kwargs):
    """1 where the completion ends with the answer, else 0; `answer` is the dataset's column."""
    return [float(text.strip().endswith(gold)) for text, gold in zip(completions, answer, strict=True)]
