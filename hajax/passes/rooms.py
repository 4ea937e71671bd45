"""Free bytes of one memory while an order is searched: which ones, and since when in modelled cycles."""

Piece = tuple[int, int, float]  # from, to, free from this moment on


class Room:
    """Free pieces of a memory, in order of their addresses."""

    __slots__ = ("pieces",)

    def __init__(self, start: int, end: int):
        self.pieces: list[Piece] = [(start, end, 0.0)] if start < end else []

    def find(self, size: int, now: float) -> tuple[float, int] | None:
        """From when on and where there are `size` bytes: multiples of the size first, then early, then where little is left over.

        Buffers of a size that divides that of larger ones leave whole places of those free.
        """
        best: tuple[bool, float, int, int] | None = None
        pieces = self.pieces
        grid = 1 << (size.bit_length() - 1)
        for first, (start, stop, _) in enumerate(pieces):
            run = stop
            for begin, end, _ in pieces[first + 1 :]:
                if begin != run:
                    break
                run = end
            for at in (start, -(-start // grid) * grid):
                if (at >= stop and at != start) or at + size > run:
                    continue
                when = now
                for begin, _, freed in pieces[first:]:
                    if begin >= at + size:
                        break
                    if freed > when:
                        when = freed
                found = (at % grid != 0, when, run - at - size, at)
                if best is None or found < best:
                    best = found
        return None if best is None else (best[1], best[3])

    def take(self, start: int, size: int) -> None:
        """Bytes from `start` on, all of them free."""
        end = start + size
        kept: list[Piece] = []
        for begin, stop, freed in self.pieces:
            if stop <= start or begin >= end:
                kept.append((begin, stop, freed))
                continue
            if begin < start:
                kept.append((begin, start, freed))
            if stop > end:
                kept.append((end, stop, freed))
        self.pieces = kept

    def give(self, start: int, size: int, when: float, now: float) -> None:
        """Bytes that are free from `when` on. Neighbours that are free `now` become one piece."""
        merged: list[Piece] = []
        for piece in sorted([*self.pieces, (start, start + size, when)]):
            if merged and merged[-1][1] == piece[0] and merged[-1][2] <= now and piece[2] <= now:
                merged[-1] = (merged[-1][0], piece[1], max(merged[-1][2], piece[2]))
            else:
                merged.append(piece)
        self.pieces = merged
