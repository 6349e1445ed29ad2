"""What a verdict costs beside its algebra."""

import resource

from rovrl.tasks.verifier import with_room


def page_faults_at_the_worst_depth() -> int:
    """Of 300 calls a few frames deep, made from every depth of frames up to 300."""

    def at(depth):
        return at(depth - 1) if depth else hot()

    def hot():
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(300):
            in_and_out(4)
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

    def in_and_out(depth):
        if depth:
            in_and_out(depth - 1)

    return max(at(depth) for depth in range(300))


def test_frames_with_room_do_not_have_the_kernel_map_memory_at_the_edge_of_a_piece():
    found = []
    with_room(lambda: found.append(page_faults_at_the_worst_depth()))
    assert found[0] < 100  # without room, on CPython 3.11: one for each of the 300 calls
