"""Which images of a history still go along: never too many, the newest always, and the edge moves in steps."""

from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.message import AssistantMessage, ImagePart, TextPart, UserMessage
from tinsmith.domain.settings import ContextSettings
from tinsmith.domain.turn import WindowEdges
from tinsmith.engine.images import MOST_BYTES, MOST_IMAGES, with_newest_images
from tinsmith.engine.window import make_view

BIG = MOST_BYTES // 4


def message(number: int, sizes: list[int]) -> UserMessage:
    parts = (ImagePart(f"{number}.{index}", "image/png", size, 750, 10) for index, size in enumerate(sizes))
    return UserMessage(f"m{2 * number:08d}", f"t{number}", (TextPart("see"), *parts))


def history(sizes: list[list[int]]) -> list:
    messages = []
    for number, each in enumerate(sizes):
        messages += [message(number, each), AssistantMessage(f"m{2 * number + 1:08d}", f"t{number}", "", "I see.")]
    return messages


def sent(messages) -> list[ImagePart]:
    return [image for each in messages if isinstance(each, UserMessage) for image in each.images]


messages_of_sizes = st.lists(
    st.lists(st.integers(1, BIG), max_size=4) | st.lists(st.integers(1, 1000), max_size=MOST_IMAGES), max_size=12
)


@given(messages_of_sizes)
def test_the_newest_images_go_along_and_older_ones_stay_out(sizes):
    whole = history(sizes)
    edges = []
    for end in range(2, len(whole) + 1, 2):
        seen = with_newest_images(whole[:end])
        images, kept = sent(whole[:end]), sent(seen)
        assert kept == images[len(images) - len(kept) :]
        assert len(kept) <= MOST_IMAGES
        assert sum(image.size for image in kept) <= MOST_BYTES
        assert seen[-2] == whole[end - 2]
        assert [len(each.parts) for each in seen[::2]] == [len(each.parts) for each in whole[:end:2]]
        edges.append(len(images) - len(kept))
    assert edges == sorted(edges)


def test_the_edge_moves_in_steps():
    whole = history([[1000]] * 45)
    kept = [len(sent(with_newest_images(whole[:end]))) for end in range(2, 92, 2)]
    assert kept == [*range(1, 21), *(10 + step % 11 for step in range(25))]


def test_what_is_left_out_is_told():
    seen = with_newest_images(history([[33_001], [1] * MOST_IMAGES]))
    told = TextPart("[image: png, 34 kB] (left out: newer images took its place)")
    assert seen[0].parts == (TextPart("see"), told)
    assert with_newest_images(seen) == seen


def test_an_image_counts_as_the_tokens_it_usually_makes():
    def tokens(*images: ImagePart) -> int:
        view = make_view(
            [UserMessage("m00000000", "t", images)],
            settings=ContextSettings(),
            context_window=100_000,
            edges=WindowEdges(),
            overhead_chars=0,
            turn_id="t",
            can_recall=False,
        )
        return view.tokens

    assert tokens(ImagePart("a", "image/png", 9, 750, 100)) == 100
    assert tokens(ImagePart("a", "image/png", 9, 1, 1)) == 1
    assert tokens(ImagePart("a", "image/png", 9, 8000, 8000)) == 1_600
    assert tokens(ImagePart("a", "image/png"), ImagePart("b", "image/png")) == 3_200
