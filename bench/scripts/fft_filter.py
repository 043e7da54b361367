"""Sixty noisy recordings: band-pass by FFT, a notch, a spectrogram, peaks."""

import sys

import numpy as np


def recording(n, rate, rng):
    t = np.arange(n) / rate
    chirp = np.sin(2 * np.pi * (50 * t + 30 * t**2))
    hum = 0.8 * np.sin(2 * np.pi * 50 * t + rng.uniform(0, 6))
    return chirp + hum + rng.normal(0, 0.5, n)


def spectrogram(x, length, hop):
    window = np.hanning(length)
    frames = np.array([x[i : i + length] * window for i in range(0, len(x) - length, hop)])
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    return 10 * np.log10(power + 1e-12)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rate, n = 2_000, 1 << 17
rng = np.random.default_rng(53)
powers, tracks = [], []
for number in range(max(int(60 * size), 1)):
    x = recording(n, rate, rng)
    spectrum = np.fft.rfft(x)
    frequency = np.fft.rfftfreq(n, 1 / rate)
    gain = np.exp(-(((frequency - 300) / 250) ** 4))
    gain[np.abs(frequency - 50) < 2] = 0.0
    clean = np.fft.irfft(spectrum * gain, n)
    before, after = np.mean(x**2), np.mean(clean**2)
    db = spectrogram(clean, 512, 128)
    loud = db.max(axis=1) > np.median(db) + 10
    track = db.argmax(axis=1)[loud] * rate / 512
    powers.append((before, after))
    tracks.append(track.mean())
    if number % 20 == 0:
        print("recording", number, before, after)
powers = np.array(powers)
print("power", *powers.mean(axis=0))
print("track", np.mean(tracks), "loud", loud.mean())
