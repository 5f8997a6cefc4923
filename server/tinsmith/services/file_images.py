"""Files as they were: from a change to its bytes, and from stored bytes back to texts."""

import logging
from collections import OrderedDict
from collections.abc import Iterable

from tinsmith.domain.change import ChangeRecord, FileChange, Image
from tinsmith.store import Storage
from tinsmith.store.blobs import blob_hash
from tinsmith.workspace.text import image_of, text_hash, text_of_image

_log = logging.getLogger(__name__)

TEXT_CHARACTERS = 16_000_000
"""Of texts that are kept at hand."""

Kept = tuple[Image, bytes]


def images_of(change: FileChange) -> tuple[Kept | None, Kept | None]:
    """The file before and after the change with their bytes; None where there is no file."""
    before = change.before
    has_bom, encoding = (before.has_bom, before.encoding) if before else (False, "utf-8")

    def kept(text: str) -> Kept:
        content = image_of(text, has_bom, encoding)
        return Image(text_hash(text), blob_hash(content), has_bom, encoding), content

    return (kept(before.text) if before else None), (None if change.is_deletion else kept(change.after_text))


def blobs_of(record: ChangeRecord) -> set[str]:
    """The names of the blobs that the record needs."""
    return {image.blob for image in (record.before, record.after) if image is not None}


class ImageTexts:
    """The texts of stored images. A blob never changes, so those that were used last are kept."""

    def __init__(self, storage: Storage, most: int = TEXT_CHARACTERS) -> None:
        self._storage = storage
        self._most = most
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._characters = 0

    def of(self, records: Iterable[ChangeRecord]) -> dict[str, str]:
        """The texts of the records' images by blob, without those whose bytes are damaged or gone."""
        images = {image.blob: image for record in records for image in (record.before, record.after) if image}
        absent = [blob for blob in images if blob not in self._texts]
        if absent:
            found = self._storage.read(lambda session: [(blob, session.blobs.get(blob)) for blob in absent])
            for blob, content in found:
                if content is None:
                    _log.warning("the file that was kept as %s cannot be read", blob)
                else:
                    image = images[blob]
                    self._texts[blob] = text_of_image(content, image.has_bom, image.encoding)
                    self._characters += len(self._texts[blob])
        texts = {blob: self._texts[blob] for blob in images if blob in self._texts}
        for blob in texts:
            self._texts.move_to_end(blob)
        while self._characters > self._most:
            self._characters -= len(self._texts.popitem(last=False)[1])
        return texts
