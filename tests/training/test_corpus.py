import corpus
import pytest

RAW = (
    "\ufeffThe Project Gutenberg EBook\r\nlicence words\r\n\r\nCHAPTER I\r\n\r\n"
    "It was a _dark_ night;\r\nand “stormy,”   said\r\nhe—twice.\r\n\r\n[Illustration: a lamp]\r\n\r\n* * * * *\r\n\r\n"
    "Part of the crew slept.\r\n\r\nCHAPTER II\r\n\r\nII.\r\n\r\nDon’t go.\r\n\r\nTHE END\r\n\r\nmore licence\r\n"
)


def test_prose_is_paragraphs_between_headings_with_plain_punctuation():
    lines = corpus.prose_lines(RAW, r"CHAPTER I$", r"THE END$")
    assert corpus.passages(lines) == [
        ['It was a dark night; and "stormy," said he--twice.', "Part of the crew slept."],
        ["Don't go."],
    ]


def test_a_package_that_changed_is_refused_by_the_missing_line():
    with pytest.raises(ValueError, match=r"CHAPTER IX"):
        corpus.prose_lines(RAW, r"CHAPTER IX$", None)
    with pytest.raises(ValueError, match=r"FINIS"):
        corpus.prose_lines(RAW, r"CHAPTER I$", r"FINIS$")


def test_the_split_keeps_every_paragraph_once_in_order_and_holds_out_the_end():
    chapters = [[f"paragraph {10 * chapter + n:04d}" for n in range(10)] for chapter in range(100)]
    parts = corpus.split(chapters)
    kept = [p for part in parts for passage in part.split(corpus.END) for p in passage.strip("\n").split("\n\n")]
    assert kept == [p for chapter in chapters for p in chapter]
    assert [part.count("paragraph") for part in parts] == [950, 35, 15]


def test_every_book_is_named_once_and_old_enough():
    assert len({book.title for book in corpus.BOOKS}) == len(corpus.BOOKS) == 9
    assert all(book.year < 1930 for book in corpus.BOOKS)
