"""What a record says of a message that is not text."""

import io

from PIL import Image

from rovrl.integrations.trl.records import plain_text


def picture():
    return Image.new("RGB", (4, 3))


def test_an_image_is_recorded_by_its_kind_and_size_and_never_by_where_it_is_in_memory():
    def message():
        content = [{"type": "image", "image": picture()}, {"type": "text", "text": "how many?"}]
        return [{"role": "user", "content": content}]

    assert plain_text(message()) == plain_text(message())
    assert '"image": "<Image 4x3>"' in plain_text(message())
    assert '"image": "<BytesIO>"' in plain_text([{"image": io.BytesIO()}, {"role": "user"}])


def test_text_stays_text():
    assert plain_text("a") == plain_text([{"role": "user", "content": "a"}]) == "a"
