"""The words of the simulated web: names of hosts and paths, and the text of its pages.

All text is built once, at import, from a fixed seed. A page is a slice of it.
"""

from __future__ import annotations

from random import Random
from urllib.parse import quote

# Second-level suffixes of .br; common ones are repeated.
BR_SUFFIXES = (*["com.br"] * 8, "org.br", "org.br", "edu.br", "gov.br", "net.br", "art.br", "br")
OTHER_SUFFIXES = ("com", "com", "com", "org", "net", "com.ar", "pt", "co.uk", "de", "info")

# First words of paths. The rules of the robots.txt files are about these.
SECTIONS = (
    "noticias", "esportes", "produtos", "blog", "cultura", "livros", "sobre", "equipe",
    "cursos", "eventos", "arquivo", "fotos", "musica", "receitas", "viagem", "ciencia",
)  # fmt: skip
# 64 words for hosts and paths: ASCII, and no word ends in a digit or in the start of another.
WORDS = (
    "casa", "verde", "rio", "mar", "sol", "lua", "gato", "festa", "porto", "serra", "campo",
    "praia", "monte", "vale", "ponte", "jardim", "flor", "mundo", "tempo", "vento", "pedra",
    "terra", "fogo", "luz", "noite", "manha", "tarde", "cidade", "rua", "praca", "escola", "banco",
    "loja", "feira", "moda", "saude", "carro", "barco", "trem", "aviao", "estrada", "caminho",
    "lago", "ilha", "mata", "bosque", "nuvem", "chuva", "neve", "gelo", "cafe", "leite", "queijo",
    "doce", "fruta", "laranja", "limao", "manga", "uva", "milho", "arroz", "feijao", "peixe", "ave",
)  # fmt: skip
ACCENTED = ("ação", "educação", "informação", "história", "política", "índice", "público", "são")
_TEXT = (
    *WORDS, *ACCENTED, "de", "a", "o", "que", "e", "do", "da", "em", "um", "para", "é", "com",
    "não", "uma", "os", "no", "se", "na", "por", "mais", "as", "the", "of", "and", "to", "in",
)  # fmt: skip
_ENGLISH = (
    "house", "green", "river", "sea", "sun", "moon", "cat", "party", "field", "beach", "garden",
    "world", "weather", "wind", "stone", "earth", "night", "morning", "city", "street", "school",
    "shop", "health", "road", "way", "lake", "island", "forest", "cloud", "rain", "snow", "coffee",
    "milk", "cheese", "sweet", "fruit", "fish", "bird", "the", "the", "of", "of", "and", "and",
    "to", "to", "in", "in", "that", "is", "was", "for", "with", "as", "on", "they", "are", "this",
    "have", "from", "which", "would", "there", "their", "about", "when", "people", "through",
)  # fmt: skip

# Weights of the number of words before the last word of a path: 0 to 8 words, so levels 2 to 10.
_DEPTHS = (30, 25, 18, 10, 6, 4, 3, 2, 2)


def _directories(count: int) -> tuple[str, ...]:
    rng = Random(1)
    made = []
    for depth in rng.choices(range(len(_DEPTHS)), weights=_DEPTHS, k=count):
        words = [rng.choice(SECTIONS)] if depth else []
        words += [
            quote(rng.choice(ACCENTED)) if rng.random() < 0.05 else rng.choice(WORDS)
            for _ in range(depth - 1)
        ]
        made.append("/".join(["", *words, ""]))
    return tuple(made)


def _paragraphs(words: tuple[str, ...], count: int = 256) -> list[str]:
    rng = Random(2)
    made = []
    for _ in range(count):
        sentences = [
            " ".join(rng.choices(words, k=rng.randrange(6, 18))).capitalize()
            for _ in range(rng.randrange(3, 9))
        ]
        made.append(f"<p>{'. '.join(sentences)}.</p>\n")
    return made


class Text:
    """Running text in one character set, sliced at paragraphs: one copy per page."""

    def __init__(self, paragraphs: list[str], charset: str) -> None:
        pieces = [paragraph.encode(charset) for paragraph in paragraphs]
        self._text = b"".join(pieces) * 2
        self._starts = [0]
        for piece in pieces:
            self._starts.append(self._starts[-1] + len(piece))
        self._size = self._starts.pop()

    def cut(self, number: int, size: int) -> bytes:
        """At least `size` bytes of whole paragraphs; `number` chooses the first."""
        size = max(size, 1)
        start = self._starts[number % len(self._starts)]
        if size > self._size:
            return self._text[start : start + self._size] * -(-size // self._size)
        end = self._text.find(b"\n", start + size - 1) + 1
        return self._text[start:end]


DIRECTORIES = _directories(2048)
_PARAGRAPHS = {"pt": _paragraphs(_TEXT), "en": _paragraphs(_ENGLISH)}
TEXTS = {  # by language and character set
    (language, charset): Text(paragraphs, charset)
    for language, paragraphs in _PARAGRAPHS.items()
    for charset in ("utf-8", "windows-1252")
}
