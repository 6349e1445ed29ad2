"""A scorer behind HTTP: FastAPI and uvicorn with limits on what clients may send, hold and wait for.

    from rovrl.tasks.serve import serve
    serve(lambda chats: [len(chat[-1]["content"]) for chat in chats], port=8100)

POST /score takes {"conversations": [[{"role": .., "content": ..}, ..], ..]} and answers {"scores": [number or null, ..]}.
"""

from rovrl.errors import require

for _package in ("fastapi", "uvicorn", "prometheus_client"):
    require(_package, extra="serve")

from rovrl.tasks.serve.app import ServerLimits, create_app  # noqa: E402
from rovrl.tasks.serve.run import add_arguments, serve, serving  # noqa: E402

__all__ = ["ServerLimits", "add_arguments", "create_app", "serve", "serving"]
