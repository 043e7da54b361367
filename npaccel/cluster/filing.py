"""Orders by which nodes write pieces to files, and read them again (disk.py)."""

from __future__ import annotations

from collections.abc import Mapping

from npaccel.cluster import zarrs
from npaccel.cluster.boxes import Box
from npaccel.cluster.checkpoints import Piece
from npaccel.cluster.disk import File
from npaccel.cluster.orders import Load, Order, Reply, Save

__all__ = ["files_of", "load_orders", "parts_of", "save_orders"]

Files = Mapping[int, tuple[str, tuple[File, ...]]]


def save_orders(
    names: Mapping[int, str], pieces: Mapping[int, Piece], folder: str
) -> dict[int, Order]:
    """Each node writes its part of each piece."""
    orders: dict[int, Order] = {}
    for number, piece in pieces.items():
        for node, mine in _boxes(piece).items():
            name = names[number] if zarrs.holds(folder) else f"{names[number]}-{node}.npy"
            save = Save(number, piece.size, piece.layout, mine, folder, name)
            before = orders.get(node, Order())
            orders[node] = before._replace(saves=(*before.saves, save))
    return orders


def _boxes(piece: Piece) -> dict[int, list[Box]]:
    boxes: dict[int, list[Box]] = {}
    for node, box in piece.placed.shares if piece.placed is not None else ():
        boxes.setdefault(node, []).append(box)
    return boxes


def parts_of(
    names: Mapping[int, str], pieces: Mapping[int, Piece], folder: str
) -> dict[int, tuple[str, tuple[File, ...]]]:
    """Of arrays of zarr's what each node is to read again."""
    return {
        number: (
            folder,
            tuple(File(names[number], k, tuple(b), None) for k, b in sorted(_boxes(one).items())),
        )
        for number, one in pieces.items()
        if one.placed is not None
    }


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
