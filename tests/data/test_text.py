import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evigrad.data import VOCABULARY, DataError, encode


def test_words_are_checksums_of_their_letters():
    ids = encode("Keycap: STAR, keycap", 6).tolist()
    assert ids[0] == ids[2] == 2 + zlib.crc32(b"keycap") % 8190
    assert ids[1] == 2 + zlib.crc32(b"star") % 8190
    assert ids[3:] == [0, 0, 0]


def test_the_blank_word_has_its_own_id():
    assert encode("a _ b", 3).tolist()[1] == 1


def test_characters_are_bytes():
    assert encode("aé", 5, "characters").tolist() == [2 + 97, 2 + 0xC3, 2 + 0xA9, 0, 0]


@given(text=st.text(), length=st.integers(1, 20), unit=st.sampled_from(sorted(VOCABULARY)))
def test_fixed_length_within_the_vocabulary(text, length, unit):
    ids = encode(text, length, unit)
    assert ids.shape == (length,)
    assert 0 <= ids.min() <= ids.max() < VOCABULARY[unit]


def test_unknown_unit():
    with pytest.raises(DataError, match=r"unknown unit of text 'word'. Did you mean 'words'\?"):
        encode("a", 1, "word")
