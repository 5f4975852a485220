"""Attacks on the readers of user files: what is no data is refused in one sentence, at little cost."""

import bz2
import io
import lzma
import os
import random
import struct
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from dgdmn.core.errors import DataError, DgdmnError, UsageError
from dgdmn.streams import from_arrays, read_arrays, readers, tables

X = np.arange(40, dtype=np.float64).reshape(20, 2)
Y = np.repeat(["oak", "ash"], 10)


def npy(header, data=b"", version=1):
    """The bytes of an .npy file with any header."""
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


def npy_header(descr="'<f8'", shape="(2, 2)"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()


def npz(path, content, method=zipfile.ZIP_STORED, name="X.npy"):
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr(name, content)
    return path


def patched(path, flags=None, method=None):
    """Change the flags or the compression method in both headers of a zip file with one member."""
    content = bytearray(path.read_bytes())
    for at, offset in ((0, 6), (content.rindex(b"PK\x01\x02"), 8)):
        if flags is not None:
            struct.pack_into("<H", content, at + offset, flags)
        if method is not None:
            struct.pack_into("<H", content, at + offset + 2, method)
    path.write_bytes(content)


def refusal(path, error=DataError, **options):
    """The sentence that refuses a file, which names it and takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error) as raised:
            read_arrays(path, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (line,) = str(raised.value).splitlines()
    assert path.name in line
    assert peak < 64 << 20, f"{peak:,} bytes"
    return line


@pytest.mark.parametrize(
    "header",
    [
        npy_header(shape="(-1, 2)"),
        npy_header(shape="(2, 2"),
        npy_header(shape="'ab'"),
        npy_header(shape="(0, 1" + "0" * 30 + ")"),
        npy_header(descr="[]"),
        npy_header(descr="'<x9'"),
        npy_header(descr="('<f8', 'x')"),
        npy_header(descr="{'a': 1}"),
        b"{'descr': '<f8'}\n",
        b"(" * 5000,
        b"'" + b"\n",
        b"{**a}",
        b"\xff\xfe",
        b"",
    ],
)
def test_a_forged_npy_header_is_refused(tmp_path, header):
    (tmp_path / "own.npy").write_bytes(npy(header, bytes(32)))
    refusal(tmp_path / "own.npy")
    refusal(npz(tmp_path / "own.npz", npy(header, bytes(32))))


def test_odd_zip_files_are_refused(tmp_path):
    """Encrypted, of an unknown method, with damaged LZMA or bzip2 data, and with a member that is no array."""
    path, content = tmp_path / "own.npz", npy(npy_header(), bytes(32))
    patched(npz(path, content), flags=1)
    assert "encrypted" in refusal(path)
    patched(npz(path, content), method=99)
    refusal(path)
    patched(npz(path, lzma.compress(content)), method=zipfile.ZIP_LZMA)
    refusal(path)
    patched(npz(path, bz2.compress(content)[4:]), method=zipfile.ZIP_BZIP2)
    refusal(path)
    refusal(npz(path, b"text"))
    refusal(npz(path, npy(npy_header(), bytes(32), version=3)))


def test_sizes_are_checked_before_values_are_read(tmp_path):
    """A header of 10¹³ rows, and a small file that unpacks to more than the limit."""
    limit = f"more than {readers.MAX_BYTES:,}: split it"
    (tmp_path / "own.npy").write_bytes(npy(npy_header(shape="(10000000000000, 2)")))
    assert limit in refusal(tmp_path / "own.npy")
    path = npz(tmp_path / "own.npz", npy(npy_header(shape="(10000000000000, 2)")))
    assert limit in refusal(path)
    np.savez(path, X=np.zeros((2, 2)), y=np.array(["a", "b"]))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("task.npy", npy(npy_header("'<U100000000'", "(3,)")))
    assert limit in refusal(path)


def test_all_values_of_a_file_count(tmp_path, monkeypatch):
    """Bools become float32, labels become Python strings, and a long label widens all of them."""
    monkeypatch.setattr(tables, "MAX_BYTES", 2000)
    np.savez(tmp_path / "own.npz", X=np.zeros((300, 2), bool))
    assert "2,400 bytes" in refusal(tmp_path / "own.npz")
    np.savez(tmp_path / "own.npz", X=np.zeros((30, 2), np.uint8), y=np.zeros(30, np.int64))
    assert "2,220 bytes" in refusal(tmp_path / "own.npz")
    (tmp_path / "own.csv").write_text("label,a\n" + "x,1\n" * 20 + "y" * 80 + ",1\n")
    assert "bytes of values" in refusal(tmp_path / "own.csv")
    assert len(read_arrays(_csv(tmp_path, "label,a\n" + "x,1\n" * 20)).X) == 20
    assert "bytes of values" in refusal(_csv(tmp_path, "a\n" + "1\n" * 251))
    for n in range(3):
        Image.new("RGB", (20, 20)).save(tmp_path / f"{n}.png")
    assert "3,600 bytes" in refusal(tmp_path)


def _csv(folder, text):
    (folder / "own.csv").write_text(text, encoding="utf-8")
    return folder / "own.csv"


def test_a_csv_row_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_ROW_CHARACTERS", 1000)
    assert "more than 1,000 characters" in refusal(_csv(tmp_path, "a,b\n" + "1," * 600))
    assert "more than 1,000 characters" in refusal(_csv(tmp_path, 'a,b\n"1\n",' + '"2\n",' * 300))
    assert len(read_arrays(_csv(tmp_path, "a,b\n" + "1,2\n" * 600)).X) == 600


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "\uff11", "1\u00a0", "0x10"])
def test_numbers_are_ascii_digits(tmp_path, text):
    assert "write numbers as 1234.5" in refusal(_csv(tmp_path, f"label,a\nx,{text}\n"))
    assert read_arrays(_csv(tmp_path, f"label,a\n{text},1\n")).y.tolist() == [text]


def test_labels_that_cannot_be_saved_are_refused(tmp_path):
    np.savez(tmp_path / "own.npz", X=X[:2], y=np.array(["a", "\ud800"]))
    assert "y has '\\ud800', which is not valid text" in refusal(tmp_path / "own.npz")
    np.savez(tmp_path / "own.npz", X=X[:2], y=[0, 1], task=np.array(["a", "\udcff"]))
    assert "task has '\\udcff'" in refusal(tmp_path / "own.npz")
    folder = tmp_path / os.fsdecode(b"pictures") / os.fsdecode(b"a\xff")
    folder.mkdir(parents=True)
    Image.new("L", (2, 2)).save(folder / "a.png")
    assert "y has 'a\\udcff'" in refusal(tmp_path / "pictures")
    assert "NUL" in refusal(_csv(tmp_path, "label,a\nx,1\nx\0,2\n"))
    with pytest.raises(UsageError, match=r"y has '\\ud800'"):
        from_arrays(X[:2], ["a", "\ud800"])


@pytest.mark.parametrize("y", [["a", "a\0"], [2**53 + 1, 0.5], [2**63 + 1, -1], ["a", 1]])
def test_a_list_of_labels_that_an_array_changes_is_refused(y):
    with pytest.raises(UsageError, match="y mixes types that numpy would convert"):
        from_arrays(X[:2], y)


def test_integers_beyond_64_bits_are_text(tmp_path):
    found = read_arrays(_csv(tmp_path, f"label,a\n{2**63},1\n-1,2\n"))
    assert found.y.tolist() == [str(2**63), "-1"]


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.npz"])
def test_a_pipe_is_refused_unread(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "is a pipe or a device" in refusal(tmp_path / name)


def image_bytes(kind, size=(4, 3), mode="L"):
    content = io.BytesIO()
    Image.new(mode, size).save(content, kind)
    return content.getvalue()


FOREIGN = {
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 3\n%%EndComments\nshowpage\n%%EOF\n",
    **{
        kind: image_bytes(kind, mode="RGB")
        for kind in ("DDS", "AVIF", "JPEG2000", "TGA", "SGI", "PCX")
    },
    "SPIDER": image_bytes("SPIDER", mode="F"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_the_suffix_does_not_choose_the_decoder(tmp_path, kind):
    (tmp_path / "a.png").write_bytes(image_bytes("PNG"))
    (tmp_path / "b.png").write_bytes(FOREIGN[kind])
    line = refusal(tmp_path)
    assert "b.png cannot be read as an image: replace or remove it; formats are PNG, JPEG" in line


@pytest.mark.parametrize("kind", readers.IMAGE_FORMATS)
def test_every_allowed_format_is_read(tmp_path, kind):
    (tmp_path / "a.png").write_bytes(image_bytes(kind, mode="RGB"))
    assert read_arrays(tmp_path).X.shape == (1, 3, 4, 3)


def png_of(width, height, data=b""):
    """A PNG whose header claims a size."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_the_pixels_are_counted_before_decoding(tmp_path):
    """A PNG of 177 megapixels has 516 kB and would take 2.4 GB."""
    (tmp_path / "a.png").write_bytes(png_of(13300, 13300, bytes(13301 * 3 * 100)))
    assert "a.png has 13300 x 13300 pixels, more than 16,777,216" in refusal(tmp_path)
    (tmp_path / "a.png").write_bytes(png_of(100_000, 100_000))
    refusal(tmp_path)
    (tmp_path / "a.png").write_bytes(b"P5 13300 13300 255\n")
    assert "a.png has 13300 x 13300 pixels" in refusal(tmp_path)


def test_links_are_followed_inside_the_folder_only(tmp_path):
    folder, outside = tmp_path / "pictures", tmp_path / "secret.png"
    (folder / "oak").mkdir(parents=True)
    for file in (outside, folder / "oak" / "a.png"):
        file.write_bytes(image_bytes("PNG"))
    (folder / "ash").symlink_to("oak")
    assert read_arrays(folder).y.tolist() == ["ash", "oak"]
    (folder / "oak" / "b.png").symlink_to(outside)
    assert "b.png is a link out of" in refusal_of(folder, "b.png")
    (folder / "oak" / "b.png").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c.png").write_bytes(image_bytes("PNG"))
    (folder / "elm").symlink_to(tmp_path / "other")
    assert "c.png is a link out of" in refusal_of(folder, "c.png")


def refusal_of(folder, name):
    with pytest.raises(DataError, match=name) as raised:
        read_arrays(folder)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_only_regular_files_are_images(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "x.png").mkdir(parents=True)
    (folder / "x.png" / "a.png").write_bytes(image_bytes("PNG"))
    assert read_arrays(folder).y.tolist() == ["x.png"], "a folder is a class, whatever its name"
    odd = folder / "x.png" / "b.png"
    os.mkfifo(odd)
    assert "b.png is not a regular file" in refusal_of(folder, "b.png")
    odd.unlink()
    odd.symlink_to("missing.png")
    assert "b.png is not a regular file" in refusal_of(folder, "b.png")
    odd.unlink()
    odd.symlink_to("b.png")
    refusal_of(folder, "b.png")


def mutate(content, rng):
    """Change, cut, repeat or insert some bytes."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        at, kind = rng.randrange(len(content) + 1), rng.randrange(6)
        if kind < 3 and at < len(content):
            content[at] = rng.choice(
                (0, 1, 0x7F, 0xFF, rng.randrange(256), content[at] ^ 1 << rng.randrange(8))
            )
        elif kind == 3:
            del content[at : at + rng.choice((1, 4, 200))]
        elif kind == 4:
            content[at:at] = content[at : at + rng.choice((1, 8, 100))]
        else:
            content[at:at] = rng.choice(
                (b"\0", b"\n", b'"', b",", b"(", b"9" * 9, b"\xed\xa0\x80", b"nan")
            )
    return bytes(content)


def seeds_of_arrays():
    files = {
        "own.csv": [
            "a,b,label,task\n" + "1,2.5e3,oak,1\n-3,4,ash,2\n" * 8,
            'a,label\n1,"x\n"\n2,y\n',
        ]
    }
    files = {name: [text.encode() for text in texts] for name, texts in files.items()}
    for name, save in (("own.npz", np.savez), ("own.npz", np.savez_compressed)):
        content = io.BytesIO()
        save(content, X=X, y=Y, task=np.arange(20) % 2)
        files.setdefault(name, []).append(content.getvalue())
    for array in (
        X,
        X.astype(np.uint8),
        X.astype(">i8").reshape(5, 2, 4),
        np.asfortranarray(X) > 3,
    ):
        content = io.BytesIO()
        np.save(content, array)
        files.setdefault("own.npy", []).append(content.getvalue())
    return files


def attack(path, content):
    """Whether a file or its folder was read; anything but a DgdmnError of one line is a defect."""
    path.write_bytes(content)
    source = path.parent if path.suffix in readers.IMAGE_SUFFIXES else path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_arrays(source)
    except DgdmnError as error:
        if "\n" in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("name", ["own.csv", "own.npz", "own.npy"])
def test_mutated_files_are_read_or_refused(tmp_path, name):
    """DGDMN_ATTACKS mutated files of each kind."""
    rng, seeds = random.Random(name), seeds_of_arrays()[name]
    n = int(os.environ.get("DGDMN_ATTACKS", "1000"))
    read = sum(attack(tmp_path / name, mutate(rng.choice(seeds), rng)) for _ in range(n))
    assert 0 < read < n


def test_mutated_images_are_read_or_refused(tmp_path):
    rng = random.Random(0)
    noise = Image.effect_noise((12, 9), 60)
    seeds = []
    for kind in readers.IMAGE_FORMATS:
        for mode in ("L", "RGB"):
            content = io.BytesIO()
            noise.convert(mode).save(content, kind)
            seeds.append(content.getvalue())
    n = int(os.environ.get("DGDMN_ATTACKS", "1000"))
    read = sum(attack(tmp_path / "a.png", mutate(rng.choice(seeds), rng)) for _ in range(n))
    assert 0 < read < n
