"""A noisy recording: windowed, filtered in the frequency domain, and back by inverse FFT."""

import numpy as np

SIZE = 1 << 20


def inputs(size=SIZE):
    rng = np.random.default_rng(6)
    time = np.arange(size) / 44100.0
    tone = np.sin(2 * np.pi * 440.0 * time) + 0.5 * np.sin(2 * np.pi * 880.0 * time)
    return {"sound": tone + rng.standard_normal(size)}


def main(sound, low=300.0, high=1000.0, rate=44100.0):
    count = len(sound)
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(count) / count)
    spectrum = np.fft.rfft(sound * window)
    frequencies = np.fft.rfftfreq(count, 1.0 / rate)
    response = 1.0 / np.sqrt(1.0 + (low / (frequencies + 1e-9)) ** 8)
    response /= np.sqrt(1.0 + (frequencies / high) ** 8)
    filtered = np.fft.irfft(spectrum * response, count)
    loudness = 10.0 * np.log10(np.abs(spectrum) ** 2 + 1e-12)
    envelope = np.sqrt(np.convolve(filtered[:4096] ** 2, np.ones(64) / 64.0, "same"))
    normal = filtered / np.abs(filtered).max()
    return np.tanh(3.0 * normal), loudness, envelope
