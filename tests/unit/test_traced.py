"""Where messages that processors leave come from."""

from durable_context.prompts.traced import Given, traced


def test_what_is_said_first_again_is_added_and_the_last_one_stays_where_it_was() -> None:
    originals = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "0"}]
    given = [Given(message, place) for place, message in enumerate(originals)]
    after = [dict(originals[1]), dict(originals[0]), dict(originals[1])]
    assert [one.origin for one in traced(originals, given, after)] == [None, 0, 1]


def test_of_two_equal_messages_the_newer_one_is_left() -> None:
    originals = [{"role": "user", "content": "go on"}, {"role": "user", "content": "go on"}]
    given = [Given(message, place) for place, message in enumerate(originals)]
    [one] = traced(originals, given, [dict(originals[0])])
    assert one.origin == 1 and not one.changed
