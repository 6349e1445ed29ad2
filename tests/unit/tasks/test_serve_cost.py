"""What a request costs beside its scores."""

import socket

from rovrl.tasks.serve import run


def test_no_answer_waits_for_the_receipt_of_its_own_head():
    with run._listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
