"""torchvision's functional transforms of uint8 pictures as plain numpy, by the formulas of its documentation."""

import numpy as np

GRAY = (0.2989, 0.587, 0.114)


def gray(image):
    return (image * np.array(GRAY)).sum(axis=2)


def blend(image, other, factor):
    """Rounded down, as torchvision's are."""
    return np.clip(image * factor + other * (1 - factor), 0, 255).astype(np.uint8)


def brightness(image, factor):
    return blend(image, 0.0, factor)


def contrast(image, factor):
    return blend(image, np.floor(gray(image)).mean(), factor)


def saturation(image, factor):
    return blend(image, np.floor(gray(image))[..., None], factor)


def grayscale(image):
    return np.repeat(np.floor(gray(image)).astype(np.uint8)[..., None], 3, axis=2)


def sharpness(image, factor):
    kernel = np.full((3, 3), 1 / 13)
    kernel[1, 1] = 5 / 13
    height, width = image.shape[0] - 2, image.shape[1] - 2
    blurred = sum(
        kernel[row, column] * image[row : row + height, column : column + width]
        for row in range(3)
        for column in range(3)
    )
    out = image.copy()
    out[1:-1, 1:-1] = blend(image[1:-1, 1:-1], np.round(blurred), factor)
    return out


def autocontrast(image):
    low, high = image.min(axis=(0, 1)).astype(np.float32), image.max(axis=(0, 1)).astype(np.float32)
    flat = high == low
    unit = np.where(flat, 1, (high - low) * np.float32(1 / 255)).astype(np.float32)
    return np.clip((image - np.where(flat, 0, low).astype(np.float32)) / unit, 0, 255).astype(np.uint8)


def equalize(image):
    out = image.copy()
    for channel in range(3):
        counts = np.bincount(image[..., channel].ravel(), minlength=256)
        step = (counts.sum() - counts[image[..., channel].max()]) // 255
        if step:
            table = [min((int(counts[:level].sum()) + step // 2) // step, 255) for level in range(256)]
            out[..., channel] = np.array(table, np.uint8)[image[..., channel]]
    return out


def solarize(image, threshold):
    return np.where(image >= threshold, 255 - image, image).astype(np.uint8)


def posterize(image, bits):
    return (image >> (8 - bits)) << (8 - bits)


def gaussian_blur(image, kernel_size, sigma):
    """kernel_size: (height, width)."""
    out = image.astype(np.float64)
    for axis, size in enumerate(kernel_size):
        places = np.arange(size) - (size - 1) / 2
        weights = np.exp(-((places / sigma) ** 2) / 2)
        weights /= weights.sum()
        border = [(size // 2, size // 2) if each == axis else (0, 0) for each in range(out.ndim)]
        padded = np.pad(out, border, mode="reflect")
        length = out.shape[axis]
        out = sum(
            weight * np.take(padded, np.arange(place, place + length), axis)
            for place, weight in enumerate(weights)
        )
    return np.round(out).astype(image.dtype)


def affine_matrix(center, angle, translate, scale, shear):
    """T * C * R(angle) * S(scale) * SHy * SHx * C^-1, in degrees."""
    angle, x, y = np.radians([angle, *shear])
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    size = np.diag([scale, scale, 1])
    along = np.array([[1, -np.tan(x), 0], [0, 1, 0], [0, 0, 1]])
    down = np.array([[1, 0, 0], [-np.tan(y), 1, 0], [0, 0, 1]])
    to = np.array([[1, 0, center[0]], [0, 1, center[1]], [0, 0, 1]])
    shift = np.array([[1, 0, translate[0]], [0, 1, translate[1]], [0, 0, 1]])
    return shift @ to @ turn @ size @ down @ along @ np.linalg.inv(to)


def warp(image, matrix, size, way):
    """The pixel that the middle of each pixel of the result comes from, or the mean of the four around it; else 0."""
    rows, columns = np.indices(size) + 0.5
    back = np.linalg.inv(matrix) @ np.stack([columns, rows, np.ones(size)]).reshape(3, -1)
    x, y = (back[:2] / back[2] - 0.5).reshape(2, *size)
    if way == "nearest":
        return _at(image, np.rint(y), np.rint(x)).astype(image.dtype)
    top, left = np.floor(y), np.floor(x)
    down, right = (y - top)[..., None], (x - left)[..., None]
    above = _at(image, top, left) * (1 - right) + _at(image, top, left + 1) * right
    below = _at(image, top + 1, left) * (1 - right) + _at(image, top + 1, left + 1) * right
    return np.round(above * (1 - down) + below * down).astype(image.dtype)


def _at(image, rows, columns):
    height, width = image.shape[:2]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    taken = image[
        np.clip(rows, 0, height - 1).astype(int), np.clip(columns, 0, width - 1).astype(int)
    ].astype(float)
    return taken * inside[..., None]


def boxes_after(boxes, matrix, size):
    """Corners moved, their bounding box clipped to (height, width); those thinner than a pixel left out."""
    made = []
    for x1, y1, x2, y2 in boxes.tolist():
        corners = matrix @ np.array([[x1, x2, x2, x1], [y1, y1, y2, y2], [1, 1, 1, 1]])
        xs, ys = np.clip(corners[0] / corners[2], 0, size[1]), np.clip(corners[1] / corners[2], 0, size[0])
        box = [xs.min(), ys.min(), xs.max(), ys.max()]
        if x2 > x1 and y2 > y1 and box[2] - box[0] >= 1 and box[3] - box[1] >= 1:
            made.append(box)
    return np.array(made).reshape(-1, 4)
