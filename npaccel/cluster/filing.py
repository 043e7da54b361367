"""Orders by which nodes write pieces to files, and read them again (disk.py)."""

from __future__ import annotations

from collections.abc import Mapping

from npaccel.cluster.boxes import Box
from npaccel.cluster.checkpoints import Piece
from npaccel.cluster.disk import File
from npaccel.cluster.orders import Load, Order, Reply, Save

__all__ = ["files_of", "load_orders", "save_orders"]

Files = Mapping[int, tuple[str, tuple[File, ...]]]


def save_orders(
    names: Mapping[int, str], pieces: Mapping[int, Piece], folder: str
) -> dict[int, Order]:
    """Each node writes its part of each piece."""
    orders: dict[int, Order] = {}
    for number, piece in pieces.items():
        boxes: dict[int, list[Box]] = {}
        for node, box in piece.placed.shares if piece.placed is not None else ():
            boxes.setdefault(node, []).append(box)
        for node, mine in boxes.items():
            name = f"{names[number]}-{node}.npy"
            save = Save(number, piece.size, piece.layout, mine, folder, name)
            before = orders.get(node, Order())
            orders[node] = before._replace(saves=(*before.saves, save))
    return orders


def files_of(
    orders: Mapping[int, Order], replies: Mapping[int, Reply], folder: str
) -> dict[int, tuple[str, tuple[File, ...]]]:
    """By piece the files that there are."""
    files: dict[int, list[File]] = {}
    for node, reply in sorted(replies.items()):
        for order, file in zip(orders[node].saves, reply.saved, strict=True):
            files.setdefault(order.piece, []).append(file)
    return {number: (folder, tuple(found)) for number, found in files.items()}


def load_orders(files: Files, pieces: Mapping[int, Piece]) -> dict[int, Order]:
    """Pieces of which there are files are what these have."""
    orders: dict[int, Order] = {}
    for number, (folder, mine) in files.items():
        piece = pieces[number]
        for file in mine:
            load = Load(number, piece.size, piece.layout, folder, file)
            before = orders.get(file.node, Order())
            orders[file.node] = before._replace(loads=(*before.loads, load))
    return orders
