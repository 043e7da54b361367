"""Pictures by scikit-image."""

import numpy as np
from skimage import exposure, feature, filters, measure, morphology, restoration, segmentation
from skimage import transform as warp


def _picture(rng, size):
    side = int(size**0.5)
    y, x = np.mgrid[0:side, 0:side] / side
    coarse = np.sin(12 * x) * np.cos(9 * y)
    return np.clip(0.5 + 0.4 * coarse + 0.05 * rng.standard_normal((side, side)), 0.0, 1.0)


def cleaned(rng, size):
    noisy = _picture(rng, size)
    smooth = filters.gaussian(noisy, 2.0)
    total = restoration.denoise_tv_chambolle(noisy, weight=0.1, max_num_iter=20)
    return (
        smooth,
        filters.sobel(smooth),
        total,
        filters.median(noisy),
        exposure.equalize_hist(noisy),
    )


def objects(rng, size):
    smooth = filters.gaussian(_picture(rng, size), 2.0)
    mask = smooth > filters.threshold_otsu(smooth)
    mask = morphology.remove_small_holes(morphology.opening(mask, morphology.disk(2)))
    labels = measure.label(mask)
    areas = [(region.area, *region.centroid) for region in measure.regionprops(labels)]
    contours = measure.find_contours(smooth, 0.5)
    return (
        mask,
        labels,
        np.array(areas),
        np.concatenate(contours),
        segmentation.clear_border(labels),
    )


def warped(rng, size):
    noisy = _picture(rng, size)
    turned = warp.rotate(noisy, 30.0, resize=True)
    small = warp.resize(noisy, (50, 60), anti_aliasing=True)
    corners = feature.corner_peaks(feature.corner_harris(noisy), min_distance=5)
    bytes_ = (noisy * 255).astype(np.uint8)
    return (
        turned,
        small,
        corners,
        exposure.adjust_gamma(bytes_, 0.5),
        filters.rank.mean(bytes_, morphology.disk(3)),
    )
