"""Image classification: JPEG files decoded with OpenCV, cropped and flipped at random, in batches of 32."""

import hashlib
import sys
import time
from pathlib import Path

import cv2
import grain.python as grain
import numpy as np
from absl import app


class Photographs:
    """The files of a folder, as bytes and a label."""

    def __init__(self, folder):
        self.files = sorted(map(str, Path(folder).glob("*.jpg")))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, key):
        return {"encoded": Path(self.files[key]).read_bytes(), "label": key % 10}

    def __repr__(self):
        return f"Photographs({len(self.files)})"


class Decode(grain.MapTransform):
    def map(self, element):
        pixels = np.frombuffer(element["encoded"], np.uint8)
        return {"image": cv2.imdecode(pixels, cv2.IMREAD_COLOR), "label": element["label"]}


class RandomCropAndFlip(grain.RandomMapTransform):
    def random_map(self, element, rng):
        image = element["image"]
        size = min(200, *image.shape[:2])
        top, left = (rng.integers(side - size + 1) for side in image.shape[:2])
        image = cv2.resize(image[top : top + size, left : left + size], (112, 112))
        return {"image": image[:, ::-1] if rng.random() < 0.5 else image, "label": element["label"]}


class Normalise(grain.MapTransform):
    def map(self, element):
        return {"image": element["image"].astype(np.float32) / 255 - 0.5, "label": np.int32(element["label"])}


def main(argv):
    source = Photographs(argv[1])
    loader = grain.DataLoader(
        data_source=source,
        sampler=grain.IndexSampler(len(source), grain.NoSharding(), shuffle=True, num_epochs=3, seed=42),
        operations=[
            Decode(),
            RandomCropAndFlip(),
            Normalise(),
            grain.Batch(batch_size=32, drop_remainder=True),
        ],
        worker_count=2,
    )
    digest, batches, begun = hashlib.sha256(), 0, time.perf_counter()
    for batch in loader:
        digest.update(batch["image"].tobytes() + batch["label"].tobytes())
        batches += 1
    print("result", digest.hexdigest(), batches, time.perf_counter() - begun)


if __name__ == "__main__":
    app.run(main, sys.argv)
